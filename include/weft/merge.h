// SPDX-License-Identifier: MIT
/** Merging attention states.
 *
 *  A state is what attention gives for a part of the keys: a result and its LSE. States of disjoint keys
 *  merge into the state of all of them. So a prefix that several sequences share can be attended to once for
 *  all their queries (weft_attention_run() with the full mask), each sequence's own keys in a second run, and
 *  the two merged here. Keys may also lie on several devices, or be attended to at different times.
 */
#ifndef WEFT_MERGE_H
#define WEFT_MERGE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_merge_desc {
    uint32_t size;
    int32_t num_heads;
    int32_t dim;          /**< elements of a head; 1 to 1024 */
    int32_t max_tokens;   /**< 0 = 1 */
    int32_t max_states;   /**< 0 = 2 */
    weft_dtype dtype;     /**< of the states: f32, f16 or bf16; 0 = f32 */
    weft_dtype out_dtype; /**< 0 = dtype */
    int32_t reserved0;
    const char *variant;
    uint64_t reserved[8];
} weft_merge_desc;

typedef struct weft_merge_args {
    uint32_t size;
    int32_t tokens;     /**< 0..max_tokens */
    int32_t num_states; /**< 0..max_states */
    int32_t reserved0;
    const void *x;            /**< [state][token][head][dim] */
    int64_t x_state_stride;   /**< elements, of either sign; 0 = packed */
    int64_t x_token_stride;   /**< elements, at least dim; 0 = packed */
    int64_t x_head_stride;    /**< elements, at least dim; 0 = packed */
    const float *lse;         /**< [state][token][head], natural logarithms */
    int64_t lse_state_stride; /**< elements, of either sign; 0 = packed */
    void *out;                /**< [token][head][dim] */
    int64_t out_token_stride;
    int64_t out_head_stride;
    float *out_lse;      /**< [token][head]; NULL = not wanted */
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_merge_args;

/** Plans, for every token and head,
 *
 *      L = log sum_s exp(lse_s),    out = sum_s exp(lse_s - L) x_s,    out_lse = L
 *
 *  Errors   WEFT_EINVAL for a negative bound or a dim outside 1..1024; WEFT_EUNSUPPORTED for other formats,
 *           or a device without the operation; WEFT_EVARIANT, WEFT_ENOMEM
 *  Source   Flash-Decoding; the merge of FlashInfer's cascades
 */
WEFT_API weft_status weft_merge_plan(weft_context *context, const weft_merge_desc *desc,
                                     weft_plan **out);

/** Runs the plan.
 *
 *  Align    natural alignment of each element type
 *  Alias    out may be the x of one state, and out_lse its lse, with the same strides and format; nothing
 *           else may overlap
 *  Numerics in f32, in the order of the states. A state with LSE -infinity does not count, whatever its x
 *           holds; if all are -infinity, or there is none, out is 0 and out_lse -infinity
 *  Errors   WEFT_EINVAL for NULL pointers, tokens or num_states outside the plan's bounds, a stride below
 *           dim
 */
WEFT_API weft_status weft_merge_run(const weft_plan *plan, const weft_merge_args *args);

#ifdef __cplusplus
}
#endif
#endif
