// SPDX-License-Identifier: MIT
// What a kernel's check is written with.
//
// weft-check walks the kernel tables level by level and calls the operation's check once per case and
// kernel. A check draws a problem from the case's generator, runs it through the public API twice -
// once with the kernel under test (desc.variant = kernel->name), once with the reference - and holds
// every element to a bound. All memory comes from check_buffer(): it ends at a page that must not be
// touched, and what lies around an output must not change.
#ifndef WEFT_CHECK_H
#define WEFT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "src/kernels/kernel.h"

struct check_case {
    weft_context *context;             // limited to the level under test
    weft_context *reference;           // where references run: the CPU, or NULL, the same context
    const struct weft__kernel *kernel; // the row under test
    weft_dtype format;                 // --format, or WEFT_DTYPE_NONE
    uint64_t seed;                     // prints with a failure; --seed replays it
    int32_t index;                     // number of the case
    int32_t lengths;                   // --lengths, or 0
    int32_t each;                      // --each, or 0
    int32_t only;                      // --problem, or -1
    int32_t problem;  // the number of the one at hand where it has a state of its own, or -1
    int32_t problems; // that the case has put so far, where it is several
    uint64_t state;   // of the generator
    bool failed, skipped;
    double worst; // largest |error| / bound so far
    // Of kernels that round their input: from the exact result, as the check defines.
    double distance;
    char note[384], failure[512];
    struct check_memory *memory;
};

// A check of one operation, weft__<op>_check in src/kernels/<op>/<op>_check.c: draws a problem, runs
// it, calls check_close() for every element.
typedef void check_fn(struct check_case *c);

// For a kernel that the filter (c->format) leaves out: the case counts neither as passed nor failed.
void check_skip(struct check_case *c);

// Does the case put problem `number`, drawn from `shape`, the generator's state behind what its problems share?
// With --each the first goes on from there and every other has a state of its own, so that it can be had
// without those before it (--problem).
bool check_problem_begin(struct check_case *c, uint64_t shape, int32_t number);

// The state of the `number`-th of things that `shape` yields apart from its problems.
uint64_t check_derived(uint64_t shape, int32_t number);

// A problem of a case that is several is over: its buffers are looked at and gone.
void check_problem_done(struct check_case *c);

// Random numbers, uniform unless they say otherwise. Ranges include both ends.
uint64_t check_bits(struct check_case *c);
void check_fill_bytes(struct check_case *c, unsigned char *data, size_t bytes); // any bytes
void check_skip_bytes(struct check_case *c, size_t bytes);                      // as if they were
int64_t check_range(struct check_case *c, int64_t low, int64_t high);
float check_uniform(struct check_case *c, float low, float high);
float check_normal(struct check_case *c);
void check_normals(struct check_case *c, float *x,
                   int64_t count); // so many, but for their last bits

// A length in [1, most], biased to 1, small numbers, multiples of `tile` and their neighbours.
int64_t check_length(struct check_case *c, int64_t most, int64_t tile);

// One of the n numbers that follow.
int64_t check_pick(struct check_case *c, int n, ...);

// Fills with values of a style drawn once a call: normal, one sign, one-hot, tiny, huge range, zeros.
void check_fill(struct check_case *c, float *x, int64_t count);

// Random bytes that form valid blocks of `dtype` (finite scales), `count` elements, count a whole
// number of blocks.
void check_fill_blocks(struct check_case *c, weft_dtype dtype, void *blocks, int64_t count);

// Memory of the case, freed after it: random bytes that end at an inaccessible page (up to the
// alignment) and begin after a canary. `align` is a power of two up to 4096.
void *check_buffer(struct check_case *c, size_t bytes, size_t align);

// The same for what no kernel gets to see and the check writes before it reads it.
void *check_room(struct check_case *c, size_t bytes);

// The same for a result: every element holds a canary until it is written.
float *check_output(struct check_case *c, int64_t count);
bool check_is_canary(float value);

// Fails the case if one of the elements was never written.
void check_written(struct check_case *c, const float *output, int64_t count, const char *what);

// The same for rows of `count` elements `stride` apart; what lies between them must be as it was.
void check_written_rows(struct check_case *c, const float *output, int64_t rows, int64_t count,
                        int64_t stride, const char *what);

// Formats of activations. A problem is drawn in f32 and rounded to what its formats can hold; the kernel
// under test is given those formats, the reference f32.
weft_dtype check_dtype(struct check_case *c); // f32 half of the time
void check_round(weft_dtype dtype, float *x, int64_t count);
void *check_narrow(struct check_case *c, weft_dtype dtype, const float *x, int64_t count);
float *check_widen(struct check_case *c, weft_dtype dtype, const void *x, int64_t count);

// Name of the reference that the kernel under test is held against: its own with the instruction set
// exchanged for "ref". For operations whose reference goes by another name, say so in the check.
const char *check_reference(const struct check_case *c, char name[64]);

// Where the kernel of that name runs: references on the CPU.
weft_context *check_context(const struct check_case *c, const char *variant);

// The verdict: |got - want| <= bound, NaN only where NaN is wanted. Words the first failure of a case
// with `what` and `at`.
void check_close(struct check_case *c, double got, double want, double bound, const char *what,
                 int64_t at);

// The same for a result that was rounded to `dtype` at last.
void check_close_as(struct check_case *c, weft_dtype dtype, double got, double want, double bound,
                    const char *what, int64_t at);
void check_fail(struct check_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// A short note of the problem drawn, printed with a failure.
void check_note(struct check_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Fails the case with the library's text unless the status is WEFT_OK; returns whether it is.
bool check_ok(struct check_case *c, weft_status status, const char *what);

#endif
