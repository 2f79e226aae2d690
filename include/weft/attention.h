// SPDX-License-Identifier: MIT
/** Attention of a ragged batch over a paged KV cache.
 *
 *  One operation serves decode (one query per sequence), prefill (many), chunked prefill (many, over
 *  a prefix) and any mixture of them in one call.
 *
 *      q      [q_tokens][num_q_heads][head_dim]        the queries of all sequences, one after the other
 *      out    [q_tokens][num_q_heads][head_dim]
 *      sequence s owns queries cu_q_lens[s] .. cu_q_lens[s+1]-1 and keys 0 .. kv_lens[s]-1;
 *      its key t lies in slot t % page_size of page page_table[s][t / page_size]
 */
#ifndef WEFT_ATTENTION_H
#define WEFT_ATTENTION_H

#include "kv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_mask {
    /** Bottom-right aligned: query i of a sequence sees keys 0 .. kv_len - q_len + i. */
    WEFT_MASK_CAUSAL = 0,
    /** Every query sees every key. */
    WEFT_MASK_FULL = 1,
} weft_mask;

enum {
    /** A sequence's result does not depend on what else is in the batch, to the bit: the keys are
     *  split in chunks of a fixed length. */
    WEFT_ATTENTION_BATCH_INVARIANT = 1u << 0,
};

typedef struct weft_attention_desc {
    uint32_t size;
    uint32_t flags;
    weft_kv_layout kv;
    weft_dtype q_dtype;   /**< 0 = f32, the only one so far */
    weft_dtype out_dtype; /**< 0 = f32, the only one so far */
    int32_t num_q_heads;  /**< a multiple of kv.num_kv_heads; query head h reads KV head
                               h / (num_q_heads / num_kv_heads) */
    weft_mask mask;
    int32_t window;       /**< W: a query sees at most the last W keys up to and including its own
                               (FlashAttention's window_left = W - 1); 0 = no window. With
                               WEFT_MASK_FULL the limit counts from the causal diagonal, to the left */
    float scale;          /**< multiplies q.k; 0 = 1 / sqrt(head_dim) */
    float softcap;        /**< c: scores become c * tanh(score / c) after the scale and before the
                               mask; 1e-30 to 1e30, 0 = none */
    int32_t max_seqs;     /**< bounds of every run; 0 = 1 */
    int32_t max_q_tokens; /**< queries of all sequences together; 0 = max_seqs */
    int32_t max_kv_len;   /**< longest sequence, in keys */
    int32_t num_splits;   /**< chunks that the keys of a sequence are split in; 0 = chosen from the
                               lengths of the run */
    int32_t reserved0;
    const char *variant;
    uint64_t reserved[12];
} weft_attention_desc;

typedef struct weft_attention_args {
    uint32_t size;
    int32_t num_seqs; /**< 0..max_seqs */
    const float *q;
    int64_t q_token_stride; /**< elements, at least head_dim; 0 = packed */
    int64_t q_head_stride;  /**< elements, at least head_dim; 0 = packed */
    float *out;
    int64_t out_token_stride;
    int64_t out_head_stride;
    /** Natural logarithm of the sum of exponentiated scores, [q_tokens][num_q_heads]; NULL = not
     *  wanted. */
    float *lse;
    weft_kv_pool pool;
    const int32_t *cu_q_lens;  /**< [num_seqs + 1], first 0, non-decreasing */
    const int32_t *kv_lens;    /**< [num_seqs] */
    const int32_t *page_table; /**< [num_seqs][page_table_stride]; entries past a sequence's last
                                    page are never read, nor are those of pages that lie wholly to
                                    the left of what a window shows; NULL if no query sees a key */
    int64_t
        page_table_stride; /**< entries from sequence to sequence; 0 = all have the same pages */
    void *workspace;
    size_t workspace_bytes;
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_attention_args;

/** Plans out = softmax(mask(softcap(scale * q k^T))) v for every query.
 *
 *  Shapes   head_dim a multiple of 8 up to 256; num_q_heads % num_kv_heads == 0; page_size >= 1
 *  Errors   WEFT_EINVAL, WEFT_EUNSUPPORTED, WEFT_EVARIANT, WEFT_EOVERFLOW, WEFT_ENOMEM; text in
 *           weft_error_text(context)
 *  Source   online softmax (Milakov and Gimelshein 2018), FlashAttention-2 and Flash-Decoding;
 *           src/kernels/attention/NOTES.md
 */
WEFT_API weft_status weft_attention_plan(weft_context *context, const weft_attention_desc *desc,
                                         weft_plan **out);

/** Runs the plan.
 *
 *  Align    natural alignment of each element type; workspace 64 bytes
 *  Alias    out and lse must not overlap anything else; the pools are only read
 *  Numerics scores, statistics and accumulation in f32; the order of sums follows from the problem:
 *           two runs agree to the bit, whatever the number of threads. A
 *           query that sees no key, or only scores of -infinity, gives 0 and LSE -infinity. What
 *           lies in a page beyond kv_len, NaN included, has no influence, nor has a key or value on
 *           a query that does not see it
 *  Errors   WEFT_EINVAL for NULL pointers, a batch outside the plan's bounds, lengths that are
 *           negative or decrease, kv_len < q_len with the causal mask, a page number outside the
 *           pool; WEFT_EOVERFLOW for a pool that is longer than memory; WEFT_EWORKSPACE. Checked
 *           before anything is written
 */
WEFT_API weft_status weft_attention_run(const weft_plan *plan, const weft_attention_args *args);

/** Can this context run the descriptor? As weft_linear_supported(). */
WEFT_API bool weft_attention_supported(weft_context *context, const weft_attention_desc *desc,
                                       const char **reason);

#ifdef __cplusplus
}
#endif
#endif
