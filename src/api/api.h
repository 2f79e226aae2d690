// SPDX-License-Identifier: MIT
// What every api_<op>.c does the same way: read a caller's struct of any age, word errors.
#ifndef WEFT_API_API_H
#define WEFT_API_API_H

#include <weft/types.h>

#include "src/plan/plan.h"

// Copies a caller's struct whose first member is its size. A smaller (older) one is extended with
// zeros; a larger (newer) one is taken only if what we do not know of it is zero. Returns false for
// NULL, a size below 8 or unknown members that are set.
bool weft__api_read(void *to, uint32_t to_bytes, const void *from);

// Bytes of a public struct up to its reserved tail: what this version knows of it.
#define WEFT__KNOWN(pointer)                                                                       \
    ((uint32_t)((const char *)(pointer)->reserved - (const char *)(pointer)))

#define WEFT__TRY(expression)                                                                      \
    do {                                                                                           \
        weft_status weft__status = (expression);                                                   \
        if (weft__status != WEFT_OK)                                                               \
            return weft__status;                                                                   \
    } while (0)

// The first step of every plan: WEFT_OK if there is a place for it and the descriptor could be read.
weft_status weft__api_desc(weft_context *context, enum weft__op op, void *copy, uint32_t copy_bytes,
                           const void *desc, weft_plan *const *out);

// A bound of a descriptor, most rows (tokens, batch) of a run: 0 becomes 1, WEFT_OK unless negative.
weft_status weft__api_most(weft_context *context, enum weft__op op, const char *what,
                           int32_t *most);

// WEFT_OK if the plan is one of `op` and `args` could be read into `copy`.
weft_status weft__api_open(const weft_plan *plan, enum weft__op op, void *copy, uint32_t copy_bytes,
                           const void *args);

// WEFT_OK if the run was given the workspace that the plan asked for, aligned to 64 bytes.
weft_status weft__api_workspace(const weft_plan *plan, const void *workspace, size_t bytes);

// Makes a plan of an operation whose descriptor has been checked and settled, with the arrays that it
// points to (weft__plan_create); *out is untouched on failure.
weft_status weft__api_plan(weft_context *context, enum weft__op op, void *desc, size_t desc_bytes,
                           const struct weft__plan_array *arrays, int32_t num_arrays,
                           weft_plan **out);

// The array that every descriptor has: the name of a variant.
#define WEFT__VARIANT(desc)                                                                        \
    (struct weft__plan_array)                                                                      \
    {                                                                                              \
        &(desc)->variant, (desc)->variant ? strlen((desc)->variant) + 1 : 0                        \
    }

// The same for descriptors without other arrays.
#define WEFT__API_PLAN(context, op, desc, out)                                                     \
    weft__api_plan(context, op, desc, sizeof *(desc), &WEFT__VARIANT(desc), 1, out)

// Hands checked and settled arguments to the backend, or to the program that is being recorded: args is
// one flat struct, of which a copy is kept; what it points to is the caller's.
weft_status weft__api_submit(const weft_plan *plan, const void *args, size_t args_bytes,
                             weft_stream *stream);

// The program that this thread records on the context, or NULL; and a step of it.
weft_program *weft__api_recording(weft_context *context);
weft_status weft__api_record(weft_program *program, const struct weft__step *step,
                             const weft_stream *stream);

// Copies an answer into a caller's struct of any age, whose first member is its size. False for NULL, a
// size below 8 or above ours.
bool weft__api_answer(void *to, const void *known, uint32_t known_bytes);

// May the host look into the array? If not, its contents are the caller's word.
bool weft__api_is_host(const weft_plan *plan, const void *array);

// WEFT_OK if the stream is the context's own (NULL) or one made for it.
weft_status weft__api_stream(weft_context *context, const weft_stream *stream);

// The backend of a device, or why there is none.
weft_status weft__api_backend(weft_device device, const struct weft__backend **out);

// Keeps the sentence that explains why a call without a context failed and returns `status`.
weft_status weft__api_fail(weft_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// WEFT_OK if a run's number of rows (tokens, batch) is one that the plan was made for.
weft_status weft__api_count(const weft_plan *plan, const char *what, int32_t count, int32_t most);

// A stride of 0 becomes the packed one; false if it is shorter than the row, or if `count` of them are
// more than an address can say.
bool weft__api_stride(int64_t *stride, int64_t packed, int64_t row, int64_t count);

// WEFT_OK if addresses, or'ed together with whatever else must be, are multiples of `bytes`.
weft_status weft__api_aligned(const weft_plan *plan, uintptr_t addresses, size_t bytes);

// The format of activations of a descriptor's member `what`: 0 becomes f32, WEFT_OK for f32, f16, bf16.
weft_status weft__api_dtype(weft_context *context, enum weft__op op, const char *what,
                            weft_dtype *dtype);

// WEFT_OK if a nested struct's tail is zero.
weft_status weft__api_tail(weft_context *context, const char *what, const uint64_t *reserved,
                           int32_t count);

// Alignment of the elements or blocks of a format.
size_t weft__api_alignment(weft_dtype dtype);

// Checks and settles the descriptor of a linear layer, as weft_linear_plan() does.
weft_status weft__api_linear_desc(weft_context *context, weft_linear_desc *desc);

// Bytes of a part's packed weights where the device has a layout of its own for them, else 0.
int64_t weft__api_packed_by_device(const weft_plan *plan, int32_t part);

// Reads the machine's file of thresholds into a new context of the CPU (weft/tuning.h); a file that cannot be used
// leaves a note. path NULL: the machine's own, "": none.
void weft__api_tuning_open(weft_context *context, const char *path);

// Ends a weft_<op>_supported(): frees the plan and says why there is none.
bool weft__api_supported(const weft_context *context, weft_status status, weft_plan *plan,
                         const char **reason);

#endif
