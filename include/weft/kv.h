// SPDX-License-Identifier: MIT
/** The paged KV cache: its layout, and appending to it.
 *
 *  Keys and values live in two pools of equal shape. A pool is an array of pages; a page holds
 *  `page_size` token slots for every KV head. A sequence owns a list of pages (its row of the page
 *  table): token t of the sequence is slot t % page_size of page page_table[t / page_size].
 *
 *      packed layout of a pool, strides in elements:
 *
 *      [page][kv_head][slot][head_dim]      token_stride = head_dim
 *                                           head_stride  = page_size * head_dim
 *                                           page_stride  = num_kv_heads * head_stride
 *
 *  Any other order, e.g. [page][slot][kv_head][head_dim], is a matter of strides. head_dim elements
 *  of one slot are always contiguous.
 */
#ifndef WEFT_KV_H
#define WEFT_KV_H

#include "context.h"
#include "rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where the pages are. The memory is the caller's. */
typedef struct weft_kv_pool {
    void *k;
    void *v;
    int64_t num_pages;
    int64_t page_stride;  /**< elements, at least head_dim; 0 = packed */
    int64_t head_stride;  /**< elements, at least head_dim; 0 = packed */
    int64_t token_stride; /**< elements, at least head_dim; 0 = packed */
} weft_kv_pool;

/** Shape and format of a pool. */
typedef struct weft_kv_layout {
    weft_dtype dtype; /**< f32, f16 or bf16 */
    int32_t num_kv_heads;
    int32_t head_dim;
    int32_t page_size; /**< tokens per page, >= 1 */
} weft_kv_layout;

/** Bytes of one page of both pools, keys and values together, packed; -1 for a bad layout. */
WEFT_API int64_t weft_kv_page_bytes(const weft_kv_layout *layout);

typedef struct weft_kv_append_desc {
    uint32_t size;
    int32_t max_tokens; /**< 0 = 1 */
    weft_kv_layout layout;
    /** Rotate the keys (and `q`, if a run gives one) before they are stored; NULL = no rotation.
     *  Copied, and so are its frequency factors. */
    const weft_rope_params *rope;
    int32_t num_q_heads; /**< heads of `q`; 0 = runs give no q */
    int32_t reserved0;
    const char *variant;
    uint64_t reserved[8];
} weft_kv_append_desc;

typedef struct weft_kv_append_args {
    uint32_t size;
    int32_t tokens; /**< 0..max_tokens */
    weft_kv_pool pool;
    const float *k;         /**< [tokens][num_kv_heads][head_dim] */
    int64_t k_token_stride; /**< elements; 0 = packed */
    const float *v;         /**< as k */
    int64_t v_token_stride;
    float *q; /**< [tokens][num_q_heads][head_dim], rotated in place; NULL = none */
    int64_t q_token_stride;
    /** Where token i goes: page * page_size + slot; -1 = nowhere (padding). [tokens]. A slot that is
     *  named twice holds either token, or parts of both */
    const int32_t *slots;
    const int32_t *positions; /**< [tokens], read only with rope */
    weft_stream *stream;      /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_kv_append_args;

/** Plans pool[slots[i]] = (rope(k[i]), v[i]), converted to the pool's format (round to nearest even).
 *
 *  Errors   as weft_linear_plan()
 *  Source   "reshape_and_cache" of vLLM; src/kernels/kv/
 */
WEFT_API weft_status weft_kv_append_plan(weft_context *context, const weft_kv_append_desc *desc,
                                         weft_plan **out);

/** Runs the plan.
 *
 *  Align    natural alignment of each element type
 *  Alias    q, k, v and the pool must not overlap
 *  Numerics the rotation is computed in f32
 *  Errors   WEFT_EINVAL for NULL pointers, tokens outside 0..max_tokens, a slot outside the pool
 *           (other than -1) or a negative position, WEFT_EOVERFLOW for a pool that is longer than
 *           memory; checked before anything is written
 */
WEFT_API weft_status weft_kv_append_run(const weft_plan *plan, const weft_kv_append_args *args);

#ifdef __cplusplus
}
#endif
#endif
