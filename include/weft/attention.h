// SPDX-License-Identifier: MIT
/** Attention of a ragged batch over a paged KV cache.
 *
 *  One operation serves decode (one query per sequence), prefill (many), chunked prefill (many, over
 *  a prefix) and any mixture of them in one call.
 *
 *      q      [q_tokens][num_q_heads][head_dim]        the queries of all sequences, one after the other
 *      out    [q_tokens][num_q_heads][v_dim]
 *      sequence s owns queries cu_q_lens[s] .. cu_q_lens[s+1]-1 and keys 0 .. kv_lens[s]-1;
 *      its key t lies in slot t % page_size of its page t / page_size
 *
 *  What a query sees. The position of query i of a sequence is own = kv_len - q_len + i (tree: the
 *  number of keys before the new ones plus the query's depth). All of these must hold:
 *
 *      causal        t <= own
 *      window        t > own - window
 *      window_right  t <= own + window_right                              (full mask)
 *      local_chunk   t / local_chunk >= own / local_chunk
 *      kv_starts     t >= kv_starts[s]
 *      tree          t is a key before the new ones, the query's own, or one of an ancestor's
 *      bits          the query's bit for t is set, where it has one
 *      sparse        t's block is one of the last ones up to the query's, or one of those that every
 *                    query sees (a local and a vertical band)
 *      sparse lists  t's block is in the list of the query's block
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
    /** Draft tokens: the last q_len keys are the queries' own, and args.tree_parents says how they hang
     *  together. */
    WEFT_MASK_TREE = 2,
    /** args.mask_bits says what each query sees of the last keys of its sequence. */
    WEFT_MASK_BITS = 3,
} weft_mask;

enum {
    /** A sequence's result does not depend on what else is in the batch, to the bit: the keys are
     *  split in chunks of a fixed length. */
    WEFT_ATTENTION_BATCH_INVARIANT = 1u << 0,
    /** Every head has a sink: a score without a key, args.sinks, that takes part in the sum (and in LSE)
     *  but has no value. It is not scaled, and needs no query to see anything. */
    WEFT_ATTENTION_SINKS = 1u << 1,
    /** Scores get - slope * |own - t|, args.alibi_slopes per head, after the soft-cap. Not with
     *  WEFT_MASK_TREE. */
    WEFT_ATTENTION_ALIBI = 1u << 2,
    /** Keys that a query does not see get desc.mask_value added to their score instead of no weight at
     *  all; a query that sees nothing gives the mean of all values. Sums stay in f32: no score is below
     *  -3.4e38 / log2(e), nor is the LSE of such a query. */
    WEFT_ATTENTION_MASK_VALUE = 1u << 3,
    /** Block-sparse: desc.sparse_*. A query whose own position lies in block b = own / sparse_block sees
     *  the keys of block c = t / sparse_block if
     *
     *      c > b - sparse_local    or    (c + offset) % sparse_stride == 0
     *      offset = 1 + sparse_head_step * (sparse_rank * num_q_heads + query head)
     *      offset = 1 - sparse_head_step * (sparse_rank * num_kv_heads + KV head)   if it is negative
     *
     *  which is vLLM's local and vertical stride. Not with WEFT_MASK_TREE. */
    WEFT_ATTENTION_SPARSE = 1u << 4,
    /** Block-sparse: a query sees the keys of the blocks that args.sparse_blocks lists for its block of
     *  desc.sparse_queries queries; the blocks of keys are desc.sparse_keys long. */
    WEFT_ATTENTION_SPARSE_LISTS = 1u << 5,
    /** With WEFT_ATTENTION_SPARSE_LISTS: every KV head has lists of its own. */
    WEFT_ATTENTION_SPARSE_HEADS = 1u << 6,
    /** The new keys and values come with the run (args.append): it begins as weft_kv_append_run() with
     *  desc.rope would, and attends then. Runs need a batch. Where a device can, tokens that are decoded one
     *  by one take a single launch for both. */
    WEFT_ATTENTION_APPEND = 1u << 7,
    /** With a cache of f16 or bf16: the device may round the queries to the format of the cache once they are rotated,
     *  where products of 16-bit numbers are faster. A GPU does so with WEFT_ATTENTION_APPEND alone. With a cache of int8
     *  or fp8 a CPU may round them to bf16, or with int8 to 16-bit integers. */
    WEFT_ATTENTION_NARROW_QUERIES = 1u << 8,
    /** `out` is a rounded buffer (weft_rounded_bytes(), linear.h) with a row of num_q_heads * v_dim columns
     *  per query, as the next matrix reads it. Packed: the strides of out are 0. */
    WEFT_ATTENTION_OUT_ROUNDED = 1u << 9,
    /** For tests, slow: the kernel takes no short cut. head_dim is a number of run time, every score is held
     *  against what its row sees, every value goes to its rows one by one. The result is the same to the bit.
     *  Of the CPU; elsewhere without effect. */
    WEFT_ATTENTION_GENERIC = 1u << 10,
    /** Weights come from an exponential in double, rounded once, instead of the polynomial in f32 of two units in the last
     *  place (`weft bench attention --precise` says what it costs, and how far apart the results are). Of the CPU, whose
     *  kernels that round weights to 16 bits are then not taken. */
    WEFT_ATTENTION_PRECISE = 1u << 11,
};

enum {
    WEFT_ATTENTION_COUNT_BLOCKS = 0, /**< rows times blocks of keys whose scores became weights */
    WEFT_ATTENTION_COUNT_MASKED = 1, /**< of them, those whose scores were held against a mask */
    WEFT_ATTENTION_COUNTS = 2,
};

/** What the runs of a plan tell beside their results; of the CPU. Members that are NULL are not wanted. */
typedef struct weft_attention_report {
    uint64_t
        *counts; /**< [WEFT_ATTENTION_COUNTS], added to; the same for every number of threads */
    /** What the num_splits > 1 chunks of the keys come to, [q_tokens][num_q_heads][num_splits]: the largest score
     *  (natural units, sinks apart), the sum of exp(score - largest) and the sum of exp(score - largest) v,
     *  [...][v_dim]. A chunk without keys has -infinity, 0 and 0. Only for plans with num_splits > 1. */
    float *max_logits, *exp_sums, *chunk_out;
    uint64_t reserved[4];
} weft_attention_report;

typedef struct weft_attention_desc {
    uint32_t size;
    uint32_t flags;
    weft_kv_layout kv;
    weft_dtype q_dtype;   /**< f32, f16, bf16, fp8_e4m3 or fp8_e5m2; 0 = f32 */
    weft_dtype out_dtype; /**< f32, f16 or bf16; 0 = f32 */
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
    int32_t
        window_right; /**< keys to the right of a query's own that it sees, WEFT_MASK_FULL; 0 = all */
    const char *variant;
    int32_t
        local_chunk; /**< keys; a query sees those of its own chunk and what lies right; 0 = none */
    /** The cache is a ring: key t lies in slot t % ring_len of the sequence's pages, older keys are gone.
     *  The window must cover the rest: window + q_len - 1 <= ring_len for sequences longer than it. */
    int32_t ring_len;
    float mask_value;      /**< with WEFT_ATTENTION_MASK_VALUE; finite */
    int32_t sparse_block;  /**< keys; WEFT_ATTENTION_SPARSE, and so on */
    int32_t sparse_local;  /**< blocks, the query's own included */
    int32_t sparse_stride; /**< blocks from one that every query sees to the next */
    int32_t sparse_head_step;
    int32_t sparse_rank;    /**< of this device, where heads are spread over several */
    int32_t sparse_queries; /**< WEFT_ATTENTION_SPARSE_LISTS */
    int32_t sparse_keys;
    /** Speed, not results (beyond the order of sums): rows of a tile, a row being a query and a query head,
     *  0 = the kernel's own; and the keys of a chunk, 0 = chosen from the lengths of the run. */
    int32_t tile_rows;
    int32_t chunk_keys;
    /** With WEFT_ATTENTION_APPEND: rotates new keys and queries; NULL = no rotation. Copied, and so are its
     *  frequency factors. */
    const weft_rope_params *rope;
    /** Speed, not results (beyond the order of sums), of the CPU; elsewhere without effect.
     *  tile_heads: query heads of a KV head whose rows share a tile, for which its keys are read once; a divisor
     *  of their number, 0 = all of them, 1 = each alone. block_keys: keys between two looks at the largest score,
     *  1 to 64, 0 = 64. stages: blocks of keys on their way: 1 = none is asked for ahead, 2 = the next, 0 = as the
     *  kernel likes. */
    int32_t tile_heads;
    int32_t block_keys;
    int32_t stages;
    int32_t reserved_number;
    /** Bytes that the plan's workspace may have, 0 = any. A plan of the CPU that would need more splits keys in
     *  fewer chunks, then makes its tiles smaller; where that is not enough, and elsewhere, it is refused. */
    int64_t max_workspace_bytes;
    /** NULL = nothing is told. The struct is copied; what it points to must outlast the plan's runs, which must not
     *  be more than one at a time. */
    const weft_attention_report *report;
    uint64_t reserved[3];
} weft_attention_desc;

/** New keys and values of a run with WEFT_ATTENTION_APPEND, as weft_kv_append_args has them, in the format of the
 *  queries (desc.q_dtype: f32, f16 or bf16). The queries are packed within a token then, and not yet rotated;
 *  afterwards they may have been rotated, or not. */
typedef struct weft_attention_append {
    const void *k;          /**< [q_tokens][num_kv_heads][head_dim] */
    int64_t k_token_stride; /**< elements; 0 = packed */
    const void *v;          /**< [q_tokens][num_kv_heads][v_dim]; NULL = values are left alone */
    int64_t v_token_stride;
    uint64_t reserved[4];
} weft_attention_append;

typedef struct weft_attention_args {
    uint32_t size;
    int32_t num_seqs; /**< 0..max_seqs */
    const void *q;
    int64_t q_token_stride; /**< elements, at least head_dim; 0 = packed */
    int64_t q_head_stride;  /**< elements, at least head_dim; 0 = packed */
    void *out;
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
    /** Lengths, pages and their division into work, set once for all layers; num_seqs, cu_q_lens,
     *  kv_lens and what says where pages are must then be 0. */
    const weft_batch *batch;
    /** Flat lists instead of page_table: pages of sequence s are page_indices[page_starts[s] ..]. */
    const int32_t *page_indices;
    const int32_t *page_starts; /**< [num_seqs] */
    const int32_t *seq_rows; /**< [num_seqs], row of page_table (or of page_starts) that is sequence
                                      s's; NULL = s */
    const int32_t *kv_starts;  /**< [num_seqs], keys before it are padding; NULL = 0 */
    const float *sinks;        /**< [num_q_heads], with WEFT_ATTENTION_SINKS */
    const float *alibi_slopes; /**< [num_q_heads], with WEFT_ATTENTION_ALIBI */
    const int32_t
        *tree_parents; /**< [q_tokens], the parent's number among the queries of the sequence,
                                      smaller than the query's own; -1 = none. WEFT_MASK_TREE */
    /** [q_tokens][mask_stride] words, bit b of word w is column 32 w + b; column c of sequence s is key
     *  kv_lens[s] - mask_columns[s] + c. Keys left of the columns are seen. WEFT_MASK_BITS */
    const uint32_t *mask_bits;
    int64_t mask_stride;         /**< words; 0 = as many as the widest sequence's columns need */
    const int32_t *mask_columns; /**< [num_seqs], NULL = the sequence's number of queries */
    /** Lists of blocks of keys, each in ascending order: list n is sparse_blocks[sparse_starts[n] ..
     *  sparse_starts[n + 1] - 1]. That of query i of sequence s and KV head g is number
     *  sparse_first[s] + i / sparse_queries, or (that) * num_kv_heads + g with
     *  WEFT_ATTENTION_SPARSE_HEADS. */
    const int32_t *sparse_blocks;
    const int32_t *sparse_starts;
    const int32_t *sparse_first; /**< [num_seqs] */
    /** What fp8 queries are multiplied by: q_scales[token * q_scale_token_stride + head *
     *  q_scale_head_stride]; strides 0 = one for the tensor. NULL = 1. Only with fp8 queries. */
    const float *q_scales;
    int64_t q_scale_token_stride;
    int64_t q_scale_head_stride;
    const weft_attention_append *append; /**< with WEFT_ATTENTION_APPEND; read during the call */
    /** NULL, or where the number of sequences stands when the run is done, so that a recorded run may be launched with
     *  another one: num_seqs is its bound, others become 0 or the bound. Whatever the arrays hold behind the
     *  sequences that count is not read. Not with a batch; page_table or page_indices must be given, and mask_stride
     *  with WEFT_MASK_BITS. What a later launch finds in the arrays is the caller's word. */
    const int32_t *num_seqs_at;
    uint64_t reserved[4];
} weft_attention_args;

/** Plans out = softmax(mask(softcap(scale * q k^T))) v for every query.
 *
 *  Shapes   head_dim and v_dim multiples of 8 up to 1024 (of 32 with block formats); num_q_heads % num_kv_heads == 0; page_size >= 1
 *  Errors   WEFT_EINVAL, WEFT_EUNSUPPORTED, WEFT_EVARIANT, WEFT_EOVERFLOW, WEFT_ENOMEM; text in
 *           weft_error_text(context)
 *  Source   online softmax (Milakov and Gimelshein 2018), FlashAttention-2 and Flash-Decoding;
 *           src/kernels/attention/NOTES.md
 */
WEFT_API weft_status weft_attention_plan(weft_context *context, const weft_attention_desc *desc,
                                         weft_plan **out);

/** The descriptor of a layer as FlashAttention's interfaces have it: as many KV heads as query heads where num_kv_heads is
 *  0, pages of one token, at most 32 MiB of workspace, causal. Members of *desc other than size, which the caller has
 *  set, are overwritten; max_kv_len and what else differs is set afterwards.
 *
 *  Errors   WEFT_EINVAL for NULL, a size that is none, or a number that is negative; a plan says what else is wrong
 */
WEFT_API weft_status weft_attention_layer(weft_dtype kv_dtype, int32_t num_q_heads,
                                          int32_t num_kv_heads, int32_t head_dim,
                                          weft_attention_desc *desc);

/** Runs the plan.
 *
 *  Align    natural alignment of each element type; workspace 64 bytes
 *  Alias    out and lse must not overlap anything else; the pools are only read
 *  Numerics scores, statistics and accumulation in f32; the order of sums follows from the problem:
 *           two runs agree to the bit, whatever the number of threads. The scale multiplies q.k, not the query: what
 *           an element of a query below f32's normal numbers gives with an infinity in a key is infinite. A
 *           query that sees no key, or only scores of -infinity, gives 0 and LSE -infinity. What
 *           lies in a page beyond kv_len, NaN included, has no influence, nor has a key or value on
 *           a query that does not see it
 *           CUDA, caches of f16 and bf16: with f32 queries as above, but weights below 2^-39 of a query's
 *           largest may vanish if the cache is f16 (2^-31 where they are rounded). With queries of the cache's own format, weights are
 *           rounded to it before they multiply values (2^-8 bf16, 2^-11 f16), sums stay in f32; so are they
 *           with WEFT_ATTENTION_NARROW_QUERIES, and to bf16 with queries of bf16 and caches of 8 bit
 *           CPUs with AVX512-BF16 (Zen 4), caches of bf16, int8 and fp8 with queries of bf16, or
 *           WEFT_ATTENTION_NARROW_QUERIES, and CPUs with AMX, caches of bf16: weights (times the scales of their values) are
 *           rounded to bf16 before they multiply values (2^-8), sums stay in f32; elements below the normal numbers of f32 are 0
 *           CPUs with AVX512-VNNI, caches of int8 with queries of bf16, or WEFT_ATTENTION_NARROW_QUERIES: up to 8 rows (queries
 *           times query heads of a KV head) multiply integers of 16 bits. An element of a query is off by at most 2^-15 of its
 *           head's largest, a weight (times the scale of its value) by at most 2^-16 of the largest of the 64 keys around it
 *  Errors   WEFT_EINVAL for NULL pointers, a batch outside the plan's bounds, lengths that are
 *           negative or decrease, kv_len < q_len with the causal mask, a page number outside the
 *           pool, a *num_seqs_at outside 0..num_seqs; WEFT_EOVERFLOW for a pool that is longer than memory; WEFT_EWORKSPACE. Checked
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
