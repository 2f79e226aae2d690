// SPDX-License-Identifier: MIT
/** Activation functions, plain and gated. */
#ifndef WEFT_ACTIVATION_H
#define WEFT_ACTIVATION_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_activation_kind {
    WEFT_ACTIVATION_SILU = 0,      /**< x / (1 + exp(-x)) */
    WEFT_ACTIVATION_GELU = 1,      /**< x/2 (1 + erf(x / sqrt 2)) */
    WEFT_ACTIVATION_GELU_TANH = 2, /**< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    WEFT_ACTIVATION_SOFTCAP = 3,   /**< cap tanh(x / cap): keeps logits within +-cap */
    WEFT_ACTIVATION_NONE = 4,      /**< x: to multiply by `up` only, or to convert */
} weft_activation_kind;

typedef struct weft_activation_desc {
    uint32_t size;
    weft_activation_kind kind;
    int64_t dim;        /**< elements of a row of the result */
    int32_t max_rows;   /**< 0 = 1 */
    weft_dtype x_dtype; /**< of x and up; 0 = f32; f16, bf16 */
    weft_dtype y_dtype; /**< likewise */
    float cap;          /**< of SOFTCAP, positive; otherwise 0 */
    const char *variant;
    uint64_t reserved[8];
} weft_activation_desc;

typedef struct weft_activation_args {
    uint32_t size;
    int32_t rows;
    const void *x;    /**< [rows][dim]: what the function is applied to (the gate) */
    int64_t x_stride; /**< elements from row to row; 0 = dim */
    const void *up;   /**< [rows][dim], multiplies the result (SwiGLU, GeGLU); NULL = plain */
    int64_t up_stride;
    void *y; /**< [rows][dim]; may be x or up if the formats are the same */
    int64_t y_stride;
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_activation_args;

/** Plans y = f(x), or y = f(x) * up where a run gives `up`.
 *
 *  Errors   WEFT_EINVAL for dim < 1, an unknown kind, a SOFTCAP whose cap is not positive and finite, or
 *           a cap with another kind; WEFT_EVARIANT, WEFT_ENOMEM
 *  Source   Hendrycks and Gimpel 2016 (GELU), Shazeer 2020 (gated forms), Gemma 2 2024 (soft-cap)
 */
WEFT_API weft_status weft_activation_plan(weft_context *context, const weft_activation_desc *desc,
                                          weft_plan **out);

/** Runs the plan.
 *
 *  Alias    y may be x or up (same strides)
 *  Numerics within 4 ulp of f32 arithmetic on the exact function, or 2^-24 of |x| where it vanishes
 *           (SOFTCAP: within 6 ulp or 2^-148 cap); NONE is exact. f(-infinity) = 0, f(infinity) =
 *           infinity (SOFTCAP: -cap and cap); NaN stays NaN
 *  Errors   WEFT_EINVAL for NULL x or y, rows outside 0..max_rows, a stride below dim (even that of a
 *           NULL `up`)
 */
WEFT_API weft_status weft_activation_run(const weft_plan *plan, const weft_activation_args *args);

#ifdef __cplusplus
}
#endif
#endif
