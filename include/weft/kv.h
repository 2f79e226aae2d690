// SPDX-License-Identifier: MIT
/** The paged KV cache: its layout, and appending to it.
 *
 *  A cache is two planes, keys and values, each an array of pages; a page holds `page_size` token slots
 *  for every KV head. A sequence owns a list of pages: its token t is slot t % page_size of page
 *  pages[t / page_size].
 *
 *      packed layout of a plane, strides in elements:
 *
 *      [page][kv_head][slot][dim]           token_stride = dim
 *                                           head_stride  = page_size * dim
 *                                           page_stride  = num_kv_heads * head_stride
 *
 *      split in groups of `inner` elements (as vLLM's caches: 16 bytes for keys, 1 element for values):
 *
 *      [page][kv_head][dim / inner][slot][inner]
 *                                           token_stride = inner
 *                                           inner_stride = page_size * inner, from group to group
 *                                           head_stride  = page_size * dim
 *                                           page_stride  = num_kv_heads * head_stride
 *
 *  Strides express any other order, such as [page][slot][kv_head][dim], keys and values of a page side by
 *  side, or a contiguous cache (one page per sequence). The values may be part of the keys (latent
 *  attention: v.data = k.data, v_dim < head_dim).
 */
#ifndef WEFT_KV_H
#define WEFT_KV_H

#include "context.h"
#include "rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What elements are multiplied by when they are read; for formats whose blocks hold no scale. */
typedef enum weft_kv_scaling {
    WEFT_KV_SCALING_NONE = 0, /**< 1 */
    /** plane.scales, which the caller fills: per tensor, per head, ... */
    WEFT_KV_SCALING_GIVEN = 1,
    /** plane.scales, one per token and head, which append fills: the largest |element| over the largest
     *  number of the format (int8: 127, fp8_e4m3: 448, fp8_e5m2: 57344). */
    WEFT_KV_SCALING_TOKEN = 2,
} weft_kv_scaling;

/** Shape and format of a cache; all-zero members past page_size are the common case. */
typedef struct weft_kv_layout {
    weft_dtype dtype; /**< of keys: f32, f16, bf16, fp8_e4m3, fp8_e5m2, int8, or blocks of 32 that
                           hold their scale (q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl) */
    int32_t num_kv_heads;
    int32_t head_dim;   /**< of keys */
    int32_t page_size;  /**< tokens per page, >= 1 */
    weft_dtype v_dtype; /**< of values; 0 = dtype */
    int32_t v_dim;      /**< of values; 0 = head_dim */
    int32_t inner;      /**< keys: elements that lie together, a divisor of head_dim; 0 = all */
    int32_t v_inner;    /**< values; 0 = all */
    weft_kv_scaling scaling;
    weft_kv_scaling v_scaling;
    uint32_t reserved[6];
} weft_kv_layout;

/** Where keys, or values, are. The memory is the caller's. Strides count elements. */
typedef struct weft_kv_plane {
    void *data;
    int64_t page_stride; /**< this and the next three: 0 = packed */
    int64_t head_stride;
    int64_t token_stride;
    int64_t inner_stride; /**< read only where the layout has `inner` */
    /** The scale of a slot is scales[seq * scale_seq_stride + page * scale_page_stride +
     *  head * scale_head_stride + slot * scale_token_stride]. All strides 0 = one scale for the tensor,
     *  but packed [page][head][slot] with WEFT_KV_SCALING_TOKEN. `seq` is the number of the sequence in
     *  an attention; append knows none, so scale_seq_stride must be 0 there. */
    float *scales;
    int64_t scale_seq_stride;
    int64_t scale_page_stride;
    int64_t scale_head_stride;
    int64_t scale_token_stride;
    uint64_t reserved[2];
} weft_kv_plane;

typedef struct weft_kv_pool {
    weft_kv_plane k;
    weft_kv_plane v;
    int64_t num_pages;
    uint64_t reserved[2];
} weft_kv_pool;

/** Bytes of one page of both planes, packed and without scales; -1 for a bad layout. */
WEFT_API int64_t weft_kv_page_bytes(const weft_kv_layout *layout);

/** The same for the keys alone. */
WEFT_API int64_t weft_kv_key_bytes(const weft_kv_layout *layout);

/** The same for the values alone. */
WEFT_API int64_t weft_kv_value_bytes(const weft_kv_layout *layout);

/** What all layers of a step share (batch.h). */
typedef struct weft_batch weft_batch;

typedef struct weft_kv_append_desc {
    uint32_t size;
    int32_t max_tokens; /**< 0 = 1 */
    weft_kv_layout layout;
    /** Rotates the keys (and `q`, if a run gives one) before they are stored; NULL = no rotation. Copied,
     *  with its frequency factors. */
    const weft_rope_params *rope;
    int32_t num_q_heads;    /**< heads of `q`; 0 = runs give no q */
    weft_dtype q_out_dtype; /**< of args.q_out: f32, f16 or bf16; 0 = runs give none */
    const char *variant;
    weft_dtype x_dtype; /**< of args.k, v and q: f32 (0), f16 or bf16 */
    /** In tokens: `q` at position p is multiplied by 1 + q_growth * ln(1 + floor((p + 1) / q_growth_length)),
     *  which keeps attention as sharp over long contexts (Llama 4). 0 = none. CPU only. */
    int32_t q_growth_length;
    float q_growth;
    uint32_t reserved0;
    uint64_t reserved[6];
} weft_kv_append_desc;

typedef struct weft_kv_append_args {
    uint32_t size;
    int32_t tokens; /**< 0..max_tokens */
    weft_kv_pool pool;
    const void *k;          /**< [tokens][num_kv_heads][head_dim] of desc.x_dtype, as v and q */
    int64_t k_token_stride; /**< elements; 0 = packed */
    const void *v;          /**< [tokens][num_kv_heads][v_dim]; NULL = values are left alone */
    int64_t v_token_stride;
    void *q; /**< [tokens][num_q_heads][head_dim], rotated in place, or into q_out; NULL = none */
    int64_t q_token_stride;
    /** [tokens], where token i goes: page * page_size + slot; -1 = nowhere (padding). A slot that is named
     *  twice ends up with either token, or parts of both. */
    const int32_t *slots;
    const int32_t *positions; /**< [tokens], read only with rope or q_growth_length */
    weft_stream *stream;      /**< NULL = the context's own */
    /** Gives slots, positions, cos and sin: `slots` and `positions` are then not read, and `tokens` must be
     *  the batch's number of queries. */
    const weft_batch *batch;
    /** [tokens][num_q_heads][head_dim] of desc.q_out_dtype: receives the rotated queries, rounded to
     *  nearest even; q is then only read. NULL = in place. Required if the descriptor has q_out_dtype. */
    void *q_out;
    int64_t q_out_token_stride;
    uint64_t reserved[5];
} weft_kv_append_args;

/** Plans pool[slots[i]] = (rope(k[i]), v[i]), converted to the formats of the planes: rounded to nearest
 *  even, saturating for int8 and fp8; blocks as weft_quantize_row() makes them.
 *
 *  Errors   as weft_linear_plan(); WEFT_EINVAL for a negative q_growth_length, one without num_q_heads, or
 *           a q_growth that is not finite or has no q_growth_length
 *  Source   "reshape_and_cache" of vLLM; src/kernels/kv/; Nakanishi 2025 (queries that grow)
 */
WEFT_API weft_status weft_kv_append_plan(weft_context *context, const weft_kv_append_desc *desc,
                                         weft_plan **out);

/** Runs the plan.
 *
 *  Align    natural alignment of each element type
 *  Alias    q, q_out, k, v and the pool must not overlap
 *  Numerics the rotation is computed in f32; queries rotated in place are rounded to x_dtype, to nearest
 *           even
 *  Errors   WEFT_EINVAL for NULL pointers, tokens outside 0..max_tokens, a slot outside the pool
 *           (other than -1) or a negative position; WEFT_EOVERFLOW for a pool longer than memory.
 *           Checked before anything is written
 */
WEFT_API weft_status weft_kv_append_run(const weft_plan *plan, const weft_kv_append_args *args);

#ifdef __cplusplus
}
#endif
#endif
