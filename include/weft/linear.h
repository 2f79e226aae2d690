// SPDX-License-Identifier: MIT
/** Linear layers: y = W x for one row of activations (GEMV), Y = X W^T for many (GEMM). */
#ifndef WEFT_LINEAR_H
#define WEFT_LINEAR_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Activations stay f32 and every product is formed in f32. Without it, the block-quantised
     *  formats round the activations to 8 bits per group of 32 (f32 scale), which is several times
     *  faster; f32, f16 and bf16 weights are exact either way. */
    WEFT_LINEAR_EXACT = 1u << 0,
    /** A row of Y does not depend on how many other rows are in the batch, to the bit. */
    WEFT_LINEAR_BATCH_INVARIANT = 1u << 1,
};

typedef struct weft_linear_desc {
    uint32_t size;
    uint32_t flags;
    weft_dtype weight_dtype;
    weft_dtype x_dtype;  /**< 0 = f32, the only one so far */
    weft_dtype y_dtype;  /**< 0 = f32, the only one so far */
    int32_t max_batch;   /**< most rows of X in a run; 0 = 1 */
    int64_t rows;        /**< outputs, rows of W */
    int64_t cols;        /**< inputs, columns of W; a whole number of blocks */
    const char *variant; /**< name of a kernel, NULL = the best one */
    uint64_t reserved[8];
} weft_linear_desc;

typedef struct weft_linear_args {
    uint32_t size;
    int32_t batch;               /**< rows of X in this run, 0..max_batch; 0 does nothing */
    const void *weight;          /**< W[rows][cols] */
    int64_t weight_stride_bytes; /**< from row to row; 0 = packed */
    const float *x;              /**< X[batch][cols] */
    int64_t x_stride;            /**< elements from row to row; 0 = cols */
    float *y;                    /**< Y[batch][rows] */
    int64_t y_stride;            /**< elements from row to row; 0 = rows */
    const float *bias;           /**< [rows] or NULL */
    const float *residual;       /**< added to the result, [batch][rows], NULL = none; may be y */
    int64_t residual_stride;     /**< 0 = rows */
    float alpha;                 /**< 0 = 1 */
    int32_t reserved0;
    void *workspace;
    size_t workspace_bytes;
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_linear_args;

/** Plans Y = alpha * X W^T + bias + residual.
 *
 *  Shapes   W[rows][cols] in blocks of weight_dtype, X[batch][cols], Y[batch][rows];
 *           cols % weft_dtype_block_elems(weight_dtype) == 0; rows and cols >= 1
 *  Owner    the caller frees the plan with weft_plan_destroy()
 *  Errors   WEFT_EINVAL shape or flags, WEFT_EUNSUPPORTED format (weft_linear_supported() words it),
 *           WEFT_EVARIANT, WEFT_EOVERFLOW if the bytes of W do not fit, WEFT_ENOMEM; text in weft_error_text(context)
 *  Source   src/kernels/linear/NOTES.md
 */
WEFT_API weft_status weft_linear_plan(weft_context *context, const weft_linear_desc *desc,
                                      weft_plan **out);

/** Runs the plan.
 *
 *  Align    W as its element type (blocks: 2 bytes; f32: 4), x, y, bias, residual 4 bytes, workspace
 *           64 bytes
 *  Alias    y must not overlap W, x, bias or the workspace; residual may be y itself
 *  Numerics f32 accumulation in a fixed order: two runs agree to the bit, whatever the number of
 *           threads. |error| <= 2^-23 * max(8, sqrt(cols)) * sum |w||x| against exact arithmetic on
 *           the activations the kernel uses (see WEFT_LINEAR_EXACT); for q4_k, whose weights are
 *           differences, |w| is the sum of the magnitudes of both terms. A NaN or infinity in a
 *           group of 32 activations makes its row of Y NaN when activations are rounded
 *  Threads  as context.h says: a plan may be shared by threads that use different workspaces
 *  Errors   WEFT_EINVAL for NULL pointers, batch outside 0..max_batch, strides below the row length
 *           (also of a residual that is NULL), an alpha that is not finite; WEFT_EWORKSPACE. Nothing
 *           is written then
 */
WEFT_API weft_status weft_linear_run(const weft_plan *plan, const weft_linear_args *args);

/** Can this context run the descriptor? `reason` (may be NULL) receives a sentence when not, valid like
 *  weft_error_text(), and "" when it can. */
WEFT_API bool weft_linear_supported(weft_context *context, const weft_linear_desc *desc,
                                    const char **reason);

#ifdef __cplusplus
}
#endif
#endif
