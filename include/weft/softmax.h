// SPDX-License-Identifier: MIT
/** Softmax of rows, in place. */
#ifndef WEFT_SOFTMAX_H
#define WEFT_SOFTMAX_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_softmax_desc {
    uint32_t size;
    float scale; /**< multiplies x first; 0 = 1 */
    int64_t dim;
    int32_t max_rows; /**< 0 = 1 */
    weft_dtype dtype; /**< 0 = f32; f16, bf16 */
    const char *variant;
    uint64_t reserved[8];
} weft_softmax_desc;

typedef struct weft_softmax_args {
    uint32_t size;
    int32_t rows;
    void *x;
    int64_t x_stride;    /**< elements from row to row; 0 = dim */
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_softmax_args;

/** Plans x_i = exp(scale x_i - m) / sum_j exp(scale x_j - m), m = max_j scale x_j.
 *
 *  Errors   WEFT_EINVAL for dim < 1 or a scale that is not finite; WEFT_EVARIANT, WEFT_ENOMEM
 *  Source   the usual shift by the maximum; the code is ours
 */
WEFT_API weft_status weft_softmax_plan(weft_context *context, const weft_softmax_desc *desc,
                                       weft_plan **out);

/** Runs the plan.
 *
 *  Alias    in place: x is input and output
 *  Numerics f32 exponentials, their sum in f64: relative error below (2 |z| + 8) * 2^-24 for
 *           z = scale x_i - m; results below 2^-126 may become 0. A row that is -infinity throughout
 *           (+infinity if scale < 0) gives 0; one with NaN or the other infinity gives NaN; finite rows
 *           always give probabilities
 *  Errors   WEFT_EINVAL for NULL x, rows outside 0..max_rows, a stride below dim
 */
WEFT_API weft_status weft_softmax_run(const weft_plan *plan, const weft_softmax_args *args);

#ifdef __cplusplus
}
#endif
#endif
