// SPDX-License-Identifier: MIT
// Rounded activations: 8 bits in groups of 32, x[i] ~ q[i] * scale[i / 32]. One layout serves the kernels
// of every format and instruction set, so that activations are rounded once, where they are made. A
// row of a rounded buffer:
//
//      head     64 bytes: struct weft__rounded_head
//      q        [stride]       in the order of the columns
//      scale    [stride / 32]
//      scaled   [stride / 32]  scale * sum of q
//      sum32    [stride / 32]  -8 * sum of 32 q   (int32)
//      sum16    [stride / 16]  -32 * sum of 16 q  (int32)
//      squares  [stride / 128] sums of squares of the row before the next norm's weights (f64)
//
// and for the VNNI kernels of a few rows of X, where there are such:
//
//      halves   [stride]       of each 128: the even sixteens, then the odd ones
//      quads    [stride / 4]   -32 * sum of 4 of q
//      octets   [stride / 8]   -4 * sum of 4 of the first 64 of halves and the 4 that are 64 farther
//
// Unsigned weights are too large by a constant; sums times it are where an integer accumulator starts.
// They lie along the lanes of the accumulator: an offset that stood in one lane alone would make the
// lanes larger than the sum of products and cost accuracy when they become f32.
//
// `stride` is cols rounded up to WEFT__ROUNDED_PAD; the columns past cols hold zeros with scale zero.
#ifndef WEFT_KERNELS_LINEAR_ROUNDED_H
#define WEFT_KERNELS_LINEAR_ROUNDED_H

#include <stdbool.h>
#include <stdint.h>

#include "src/kernels/kernel.h"

enum {
    WEFT__ROUNDED_PAD = 256,
    WEFT__ROUNDED_STEP = 128, // columns that are rounded at a time
};

// What a row holds, so that a reader can refuse what it cannot use.
struct weft__rounded_head {
    int64_t cols;
    uint32_t mark; // WEFT__ROUNDED_MARK
    bool few;      // the planes for a few rows of X are filled
    bool squares;
};
enum { WEFT__ROUNDED_MARK = 0x77656674 };

// Where the planes lie in a row, in bytes.
struct weft__rounded_layout {
    int64_t stride, row_bytes;
    int64_t q, scale, scaled, sum32, sum16, squares;
    int64_t halves, quads, octets; // 0: there are none
};

// `few`: with the planes for a few rows of X. False if the bytes do not fit.
bool weft__rounded_lay_out(int64_t cols, bool few, struct weft__rounded_layout *out);

struct weft__rounded {
    struct weft__rounded_layout at;
    unsigned char *rows;
};

struct weft__rounded_row {
    struct weft__rounded_head *head;
    int8_t *q;
    float *scale, *scaled;
    int32_t *sum32, *sum16;
    double *squares;
    int8_t *halves;
    int32_t *quads, *octets;
};

static inline struct weft__rounded_row weft__rounded_row(const struct weft__rounded *acts,
                                                         int64_t row)
{
    const struct weft__rounded_layout *at = &acts->at;
    unsigned char *base = acts->rows + row * at->row_bytes;
    return (struct weft__rounded_row){
        (void *)base,
        (void *)(base + at->q),
        (void *)(base + at->scale),
        (void *)(base + at->scaled),
        (void *)(base + at->sum32),
        (void *)(base + at->sum16),
        (void *)(base + at->squares),
        (void *)(base + at->halves),
        (void *)(base + at->quads),
        (void *)(base + at->octets),
    };
}

// Begins a row: writes its head.
void weft__rounded_begin(const struct weft__rounded *to, int64_t row, int64_t cols, bool few,
                         bool squares);

// Rounds the n columns at x to the columns [k, end) of a row; k and end are multiples of
// WEFT__ROUNDED_STEP, n of 32, and what x has not is zero. `few` fills the planes for a few rows of X
// too. All functions of this type agree to the bit:
//   scale = a / 127, a = max |x| of the group, NaN if there is one
//   q     = x * (127 / a) rounded to nearest even; 0 where a < 2^-120 or a is not finite
typedef void weft__round_fn(const struct weft__rounded_row *to, int64_t k, int64_t end,
                            const float *x, int64_t n, bool few);

struct weft__round_kernel {
    struct weft__kernel base;
    weft__round_fn *run;
};

extern const struct weft__kernel_table weft__round_table;

// The best function of the instruction sets in the mask, which has the reference's bit.
weft__round_fn *weft__rounder_of(uint32_t isa_mask);

// Has this mask kernels that want the planes for a few rows of X?
bool weft__rounded_has_few(uint32_t isa_mask);

#endif
