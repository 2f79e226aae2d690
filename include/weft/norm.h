// SPDX-License-Identifier: MIT
/** Normalisation of rows: RMSNorm and LayerNorm. */
#ifndef WEFT_NORM_H
#define WEFT_NORM_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_norm_kind {
    WEFT_NORM_RMS = 0,   /**< y = x / sqrt(mean(x^2) + eps) * w */
    WEFT_NORM_LAYER = 1, /**< y = (x - mean(x)) / sqrt(var(x) + eps) * w + b, var over n */
} weft_norm_kind;

enum {
    /** The weights are stored minus 1 (Gemma). */
    WEFT_NORM_WEIGHT_PLUS_ONE = 1u << 0,
    /** y is a rounded buffer (linear.h), which weft_linear_run() reads with WEFT_LINEAR_X_ROUNDED: of
     *  weft_rounded_bytes(context, rows, dim), with dim a multiple of 32 and y_dtype 0 or f32. */
    WEFT_NORM_Y_ROUNDED = 1u << 1,
    /** With Y_ROUNDED: for readers with WEFT_LINEAR_BATCH_INVARIANT. */
    WEFT_NORM_BATCH_INVARIANT = 1u << 2,
};

typedef struct weft_norm_desc {
    uint32_t size;
    uint32_t flags;
    weft_norm_kind kind;
    float eps;
    int64_t dim;             /**< elements of a row, >= 1 */
    int32_t max_rows;        /**< 0 = 1 */
    weft_dtype x_dtype;      /**< 0 = f32; f16, bf16 */
    weft_dtype y_dtype;      /**< likewise */
    weft_dtype weight_dtype; /**< of weight and bias, likewise */
    const char *variant;
    uint64_t reserved[8];
} weft_norm_desc;

typedef struct weft_norm_args {
    uint32_t size;
    int32_t rows; /**< 0..max_rows */
    const void *x;
    int64_t x_stride;    /**< elements from row to row; 0 = dim */
    void *y;             /**< may be x itself if the formats are the same */
    int64_t y_stride;    /**< 0 = dim; not used by a rounded buffer */
    const void *weight;  /**< [dim]; NULL = ones */
    const void *bias;    /**< [dim], LayerNorm only; NULL = zeros */
    weft_stream *stream; /**< NULL = the context's own */
    void *workspace;     /**< what weft_plan_workspace_bytes() says: 0 but for Y_ROUNDED */
    size_t workspace_bytes;
    const void *residual;    /**< added, in y's format; NULL = none; not with Y_ROUNDED */
    int64_t residual_stride; /**< 0 = dim */
    uint64_t reserved[4];
} weft_norm_args;

/** Plans the normalisation of rows of `dim` elements.
 *
 *  Errors   WEFT_EINVAL for dim < 1, eps < 0 or not finite, unknown kind or flags, or Y_ROUNDED with a
 *           dim that is not a multiple of 32 or a y_dtype other than f32; WEFT_EUNSUPPORTED for Y_ROUNDED
 *           on a device without it; WEFT_EVARIANT, WEFT_ENOMEM; text in weft_error_text(context)
 *  Source   Zhang and Sennrich 2019 (RMSNorm), Ba et al. 2016 (LayerNorm)
 */
WEFT_API weft_status weft_norm_plan(weft_context *context, const weft_norm_desc *desc,
                                    weft_plan **out);

/** Runs the plan: Y = norm(X) * w + b, plus the residual if there is one.
 *
 *  Alias    y may be x, residual or both (same strides, not rounded); otherwise they must not overlap
 *  Numerics sums are formed in f64 in a fixed order, so neither the length nor the scale of a row costs
 *           precision; LayerNorm centres in f64. The rest is f32: within
 *           5 * 2^-24 (|norm| + |bias| + |residual|), then rounded to y_dtype, or with Y_ROUNDED as
 *           weft_round_run() rounds. A row of zeros with eps 0 gives NaN
 *  Align    a rounded y 64 bytes, the workspace 64 bytes
 *  Errors   WEFT_EINVAL for NULL x or y, rows outside 0..max_rows, a stride below dim,
 *           a bias with RMSNorm, a residual of a rounded result; WEFT_EWORKSPACE
 */
WEFT_API weft_status weft_norm_run(const weft_plan *plan, const weft_norm_args *args);

#ifdef __cplusplus
}
#endif
#endif
