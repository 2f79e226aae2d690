// SPDX-License-Identifier: MIT
/** Rotary position embedding, with the context-extension rules models are trained with. */
#ifndef WEFT_ROPE_H
#define WEFT_ROPE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which two elements turn together. */
typedef enum weft_rope_style {
    WEFT_ROPE_SPLIT_HALF = 0,  /**< (i, i + rotary_dim/2): GPT-NeoX, HF Llama, Qwen */
    WEFT_ROPE_INTERLEAVED = 1, /**< (2i, 2i + 1): GPT-J, Llama in GGUF files */
} weft_rope_style;

typedef enum weft_rope_scaling {
    WEFT_ROPE_SCALING_NONE = 0,
    WEFT_ROPE_SCALING_LINEAR = 1, /**< frequencies divided by factor */
    WEFT_ROPE_SCALING_LLAMA3 = 2, /**< low frequencies divided, a smooth band, high ones kept */
    WEFT_ROPE_SCALING_YARN = 3,   /**< NTK-by-parts with an attention factor */
} weft_rope_scaling;

/** How positions become angles: pair i of a head turns by position * frequency_i, where
 *  frequency_i = base^(-2i / rotary_dim), changed by the scaling rule. */
typedef struct weft_rope_params {
    weft_rope_style style;
    weft_rope_scaling scaling;
    int32_t rotary_dim;       /**< even, <= head_dim; the rest of a head passes through; 0 = all */
    int32_t original_context; /**< tokens the model was trained with; llama3 and yarn */
    float base;               /**< 0 = 10000 */
    float factor;             /**< linear, llama3, yarn; 0 = 1 */
    float low_freq_factor;    /**< llama3; 0 = 1 */
    float high_freq_factor;   /**< llama3; 0 = 4 */
    float beta_fast;          /**< yarn; 0 = 32 */
    float beta_slow;          /**< yarn; 0 = 1 */
    float attention_factor;   /**< multiplies cos and sin; 0 = 1, or 0.1 ln(factor) + 1 for yarn */
    int32_t reserved0;
    /** Divides frequency_i, [rotary_dim / 2], NULL = ones: how GGUF stores llama3's rule. */
    const float *freq_factors;
    uint64_t reserved[4];
} weft_rope_params;

typedef struct weft_rope_desc {
    uint32_t size;
    int32_t num_heads;
    int32_t head_dim;
    int32_t max_tokens;    /**< 0 = 1 */
    weft_rope_params rope; /**< freq_factors are copied */
    weft_dtype dtype;      /**< 0 = f32; f16, bf16 */
    int32_t reserved0;
    const char *variant;
    uint64_t reserved[8];
} weft_rope_desc;

typedef struct weft_rope_args {
    uint32_t size;
    int32_t tokens;           /**< 0..max_tokens */
    void *x;                  /**< [tokens][num_heads][head_dim], rotated in place */
    int64_t token_stride;     /**< elements; 0 = packed */
    const int32_t *positions; /**< [tokens], >= 0 */
    weft_stream *stream;      /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_rope_args;

/** Plans the rotation.
 *
 *  Formula  (a, b) -> (a cos t - b sin t, a sin t + b cos t) * attention_factor,
 *           t = position * frequency_i
 *  Errors   as weft_linear_plan()
 *  Source   Su et al. 2021 (RoFormer); Peng et al. 2023 (YaRN); transformers modeling_rope_utils for
 *           the llama3 rule
 */
WEFT_API weft_status weft_rope_plan(weft_context *context, const weft_rope_desc *desc,
                                    weft_plan **out);

/** Runs the plan.
 *
 *  Alias    x must not overlap positions
 *  Numerics angles are formed in f64 and reduced before they are rounded, so long contexts keep their
 *           precision; the rotation is f32
 *  Errors   WEFT_EINVAL for NULL pointers, tokens outside 0..max_tokens, a negative position
 */
WEFT_API weft_status weft_rope_run(const weft_plan *plan, const weft_rope_args *args);

/** Writes the rotary_dim / 2 frequencies (radians per position) that the parameters mean, and the
 *  attention factor.
 *
 *  Errors   WEFT_EINVAL for bad parameters
 */
WEFT_API weft_status weft_rope_frequencies(const weft_rope_params *params, int32_t head_dim,
                                           double *frequencies, float *attention_factor);

#ifdef __cplusplus
}
#endif
#endif
