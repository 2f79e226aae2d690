// SPDX-License-Identifier: MIT
/** Attention of a ragged batch over a paged KV cache.
 *
 *  One operation serves decode (one query per sequence), prefill (many), chunked prefill (many, over
 *  a prefix) and any mixture of these in one call.
 *
 *      q      [q_tokens][num_q_heads][head_dim]        the queries of all sequences, one after the other
 *      out    [q_tokens][num_q_heads][v_dim]
 *      sequence s has queries cu_q_lens[s] .. cu_q_lens[s+1]-1 and keys 0 .. kv_lens[s]-1;
 *      its key t lies in slot t % page_size of its page t / page_size
 *
 *  What a query sees. The position of query i of a sequence is own = kv_len - q_len + i (in a tree: the
 *  number of keys before the new ones, plus the query's depth). It sees key t if all of these hold that
 *  the descriptor asks for:
 *
 *      causal        t <= own
 *      window        t > own - window
 *      window_right  t <= own + window_right                              (full mask)
 *      local_chunk   t / local_chunk >= own / local_chunk
 *      kv_starts     t >= kv_starts[s]
 *      tree          t is a key before the new ones, the query's own, or an ancestor's
 *      bits          the query's bit for t is set, where it has one
 *      sparse        t's block is among the last ones up to the query's, or among those that every
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
    /** Draft tokens: the last q_len keys are the queries' own, and args.tree_parents gives their tree. */
    WEFT_MASK_TREE = 2,
    /** args.mask_bits says what each query sees of the last keys of its sequence. */
    WEFT_MASK_BITS = 3,
} weft_mask;

enum {
    /** To the bit, a sequence's result does not depend on what else is in the batch: keys are split in
     *  chunks of a fixed length. */
    WEFT_ATTENTION_BATCH_INVARIANT = 1u << 0,
    /** Every head has a sink: a score without a key, args.sinks, that counts in the sum (and in LSE) but
     *  has no value. It is not scaled, and counts even if a query sees no key. */
    WEFT_ATTENTION_SINKS = 1u << 1,
    /** slope * |own - t| is subtracted from scores after the soft-cap, with args.alibi_slopes per head.
     *  Not with WEFT_MASK_TREE. */
    WEFT_ATTENTION_ALIBI = 1u << 2,
    /** Keys that a query does not see have desc.mask_value added to their score, instead of getting no
     *  weight at all; a query that sees nothing gives the mean of all values. Sums stay in f32: no score
     *  is below -3.4e38 / log2(e), nor is the LSE of such a query. */
    WEFT_ATTENTION_MASK_VALUE = 1u << 3,
    /** Block-sparse: desc.sparse_*. A query whose own position lies in block b = own / sparse_block sees
     *  the keys of block c = t / sparse_block if
     *
     *      c > b - sparse_local    or    (c + offset) % sparse_stride == 0
     *      offset = 1 + sparse_head_step * (sparse_rank * num_q_heads + query head)
     *      offset = 1 - sparse_head_step * (sparse_rank * num_kv_heads + KV head)   if it is negative
     *
     *  as vLLM's local blocks and vertical stride. Not with WEFT_MASK_TREE. */
    WEFT_ATTENTION_SPARSE = 1u << 4,
    /** Block-sparse: a query sees the keys of the blocks that args.sparse_blocks lists for its block of
     *  desc.sparse_queries queries; the blocks of keys are desc.sparse_keys long. */
    WEFT_ATTENTION_SPARSE_LISTS = 1u << 5,
    /** With WEFT_ATTENTION_SPARSE_LISTS: every KV head has lists of its own. */
    WEFT_ATTENTION_SPARSE_HEADS = 1u << 6,
    /** The new keys and values come with the run (args.append): it first does what weft_kv_append_run()
     *  with desc.rope would, then attends. Runs need a batch. Where the device can, tokens that are
     *  decoded one by one take a single launch for both. */
    WEFT_ATTENTION_APPEND = 1u << 7,
    /** With a cache of f16 or bf16: the device may round the queries, once rotated, to the format of the
     *  cache where products of 16-bit numbers are faster. A GPU does so only with WEFT_ATTENTION_APPEND.
     *  With a cache of int8 or fp8 a CPU may round them to bf16, or with int8 to 16-bit integers. */
    WEFT_ATTENTION_NARROW_QUERIES = 1u << 8,
    /** `out` is a rounded buffer (weft_rounded_bytes(), linear.h) with one row of num_q_heads * v_dim
     *  columns per query, as the next matrix reads it. It is packed: the strides of out are 0. */
    WEFT_ATTENTION_OUT_ROUNDED = 1u << 9,
    /** For tests, slow: the kernel takes no short cut. head_dim is a run-time number, every score is
     *  checked against what its row sees, every value goes to its rows one by one. The result is the same
     *  to the bit. CPU only; no effect elsewhere. */
    WEFT_ATTENTION_GENERIC = 1u << 10,
    /** Weights come from an exponential in double, rounded once, instead of a polynomial in f32 that is
     *  within two units in the last place. (`weft bench attention --precise` shows what it costs and how
     *  far apart the results are.) CPU only; kernels that round weights to 16 bits are then not taken. */
    WEFT_ATTENTION_PRECISE = 1u << 11,
};

enum {
    WEFT_ATTENTION_COUNT_BLOCKS = 0, /**< rows times blocks of keys whose scores became weights */
    WEFT_ATTENTION_COUNT_MASKED = 1, /**< of these, those checked against a mask */
    WEFT_ATTENTION_COUNTS = 2,
};

/** What the runs of a plan report beside their results; CPU only. NULL members are not wanted. */
typedef struct weft_attention_report {
    /** [WEFT_ATTENTION_COUNTS], added to; the same for every number of threads. */
    uint64_t *counts;
    /** Results of each chunk of keys, [q_tokens][num_q_heads][num_splits]: the largest score (natural
     *  units, without sinks), the sum of exp(score - largest), and the sum of exp(score - largest) v,
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
    int32_t window_right; /**< WEFT_MASK_FULL: keys right of its own that a query sees; 0 = all */
    const char *variant;
    int32_t local_chunk; /**< keys; a query sees its own chunk and all right of it; 0 = none */
    /** The cache is a ring: key t lies in slot t % ring_len of the sequence's pages, older keys are gone.
     *  The window must hide those: window + q_len - 1 <= ring_len for sequences longer than the ring. */
    int32_t ring_len;
    float mask_value;      /**< with WEFT_ATTENTION_MASK_VALUE; finite */
    int32_t sparse_block;  /**< keys; this and the next four: WEFT_ATTENTION_SPARSE */
    int32_t sparse_local;  /**< blocks, the query's own included */
    int32_t sparse_stride; /**< blocks from one that every query sees to the next */
    int32_t sparse_head_step;
    int32_t sparse_rank;    /**< of this device, where heads are spread over several */
    int32_t sparse_queries; /**< this and the next: WEFT_ATTENTION_SPARSE_LISTS */
    int32_t sparse_keys;
    /** For speed; results differ only in the order of sums. tile_rows: rows of a tile, a row being one
     *  query of one head; 0 = the kernel's own. chunk_keys: keys of a chunk; 0 = chosen from the lengths
     *  of the run. */
    int32_t tile_rows;
    int32_t chunk_keys;
    /** With WEFT_ATTENTION_APPEND: rotates new keys and queries; NULL = no rotation. Copied, with its
     *  frequency factors. */
    const weft_rope_params *rope;
    /** For speed on the CPU; results differ only in the order of sums. No effect elsewhere.
     *  tile_heads: query heads of a KV head that share a tile and read its keys once: a divisor of their
     *  number; 0 = all, 1 = each alone. block_keys: keys between two updates of the largest score, 1 to
     *  64; 0 = 64. stages: blocks of keys in flight: 1 = no prefetch, 2 = the next one, 0 = the kernel's
     *  choice. */
    int32_t tile_heads;
    int32_t block_keys;
    int32_t stages;
    int32_t reserved_number;
    /** Most bytes of workspace, 0 = no limit. A CPU plan that would need more splits keys in fewer chunks,
     *  then makes its tiles smaller. A plan that needs more even so is refused; on a GPU at once. */
    int64_t max_workspace_bytes;
    /** NULL = no report. The struct is copied; what it points to must outlast the plan's runs, of which
     *  only one may be under way at a time. */
    const weft_attention_report *report;
    uint64_t reserved[3];
} weft_attention_desc;

/** New keys and values of a run with WEFT_ATTENTION_APPEND, as in weft_kv_append_args, in the format of the
 *  queries (desc.q_dtype: f32, f16 or bf16). The queries must then be packed within a token and not yet be
 *  rotated; the run may leave them rotated or as they were. */
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
    /** [q_tokens][num_q_heads]: natural logarithm of the sum of exp(score); NULL = not wanted. */
    float *lse;
    weft_kv_pool pool;
    const int32_t *cu_q_lens;  /**< [num_seqs + 1], first 0, non-decreasing */
    const int32_t *kv_lens;    /**< [num_seqs] */
    const int32_t *page_table; /**< [num_seqs][page_table_stride]; entries past a sequence's last
                                    page are never read, nor are those of pages that lie wholly left
                                    of the window; NULL if no query sees a key */
    int64_t page_table_stride; /**< entries per sequence; 0 = all have the same pages */
    void *workspace;
    size_t workspace_bytes;
    weft_stream *stream; /**< NULL = the context's own */
    /** Lengths, pages and their division into work, set once for all layers. num_seqs, cu_q_lens, kv_lens
     *  and all page lists must then be 0. */
    const weft_batch *batch;
    /** Flat lists instead of page_table: pages of sequence s are page_indices[page_starts[s] ..]. */
    const int32_t *page_indices;
    const int32_t *page_starts; /**< [num_seqs] */
    const int32_t *seq_rows;    /**< [num_seqs], the row of page_table (or page_starts) of sequence
                                     s; NULL = s */
    const int32_t *kv_starts;   /**< [num_seqs], keys before it are padding; NULL = 0 */
    const float *sinks;         /**< [num_q_heads], with WEFT_ATTENTION_SINKS */
    const float *alibi_slopes;  /**< [num_q_heads], with WEFT_ATTENTION_ALIBI */
    /** [q_tokens], WEFT_MASK_TREE: the parent's number among the queries of its sequence, smaller than
     *  the query's own; -1 = none. */
    const int32_t *tree_parents;
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
    /** NULL, or where the number of sequences is read when the run is executed, so that a recorded run can
     *  be launched again with another number. It is limited to 0..num_seqs; entries of the arrays beyond
     *  it are not read. Not with a batch; page_table or page_indices must be given, and mask_stride with
     *  WEFT_MASK_BITS. Later contents of the arrays are not checked. */
    const int32_t *num_seqs_at;
    uint64_t reserved[4];
} weft_attention_args;

/** Plans out = softmax(mask(softcap(scale * q k^T))) v for every query.
 *
 *  Shapes   head_dim and v_dim multiples of 8 (of 32 with block formats) up to 1024;
 *           num_q_heads % num_kv_heads == 0; page_size >= 1
 *  Errors   WEFT_EINVAL, WEFT_EUNSUPPORTED, WEFT_EVARIANT, WEFT_EOVERFLOW, WEFT_ENOMEM; text in
 *           weft_error_text(context)
 *  Source   online softmax (Milakov and Gimelshein 2018), FlashAttention-2 and Flash-Decoding;
 *           src/kernels/attention/NOTES.md
 */
WEFT_API weft_status weft_attention_plan(weft_context *context, const weft_attention_desc *desc,
                                         weft_plan **out);

/** Fills the descriptor of a layer as FlashAttention's interfaces have it: as many KV heads as query heads
 *  if num_kv_heads is 0, pages of one token, at most 32 MiB of workspace, causal. All members of *desc but
 *  size, which the caller has set, are overwritten; set max_kv_len and whatever else differs afterwards.
 *
 *  Errors   WEFT_EINVAL for NULL, a wrong size or a negative number; the plan finds all else
 */
WEFT_API weft_status weft_attention_layer(weft_dtype kv_dtype, int32_t num_q_heads,
                                          int32_t num_kv_heads, int32_t head_dim,
                                          weft_attention_desc *desc);

/** Runs the plan.
 *
 *  Align    natural alignment of each element type; workspace 64 bytes
 *  Alias    out and lse must not overlap anything else; the pools are only read
 *  Numerics scores, statistics and accumulation are f32. The order of sums follows from the problem, so
 *           two runs agree to the bit, whatever the number of threads. The scale multiplies q.k, not the
 *           query: a subnormal element of a query times an infinity in a key is infinite. A query that
 *           sees no key, or only scores of -infinity, gives 0 and LSE -infinity. What lies in a page
 *           beyond kv_len, NaN included, has no influence; nor has a key or value on a query that does
 *           not see it. Exceptions, all with sums in f32:
 *           - CUDA, caches of f16 and bf16. With f32 queries: weights below 2^-39 of a query's largest
 *             may vanish if the cache is f16 (2^-31 where they are rounded). With queries of the cache's
 *             format, or WEFT_ATTENTION_NARROW_QUERIES: weights are rounded to that format before they
 *             multiply values (2^-8 bf16, 2^-11 f16).
 *           - CUDA, 8-bit caches with queries of bf16: weights are rounded to bf16.
 *           - CPUs with AVX512-BF16 (Zen 4) or AMX, caches of bf16, int8 and fp8, with queries of bf16 or
 *             WEFT_ATTENTION_NARROW_QUERIES: weights (times the scales of their values) are rounded to bf16
 *             before they multiply values (2^-8), and elements below f32's normal numbers are 0; with AMX up
 *             to 8 rows may be exact, of more than 16 weights without scales are within 2^-7.8 of exact ones
 *           - CPUs with AMX, caches of f16, with queries of f16 or WEFT_ATTENTION_NARROW_QUERIES: of more than
 *             8 rows weights lose what is below 2^-16 of them
 *           - CPUs with AVX512-VNNI, caches of int8, with queries of bf16 or
 *             WEFT_ATTENTION_NARROW_QUERIES: up to 8 rows (queries times query heads of a KV head)
 *             multiply 16-bit integers. An element of a query is off by at most 2^-15 of its head's
 *             largest, a weight (times the scale of its value) by at most 2^-16 of the largest of the 64
 *             keys around it
 *  Errors   WEFT_EINVAL for NULL pointers, a batch outside the plan's bounds, lengths that are negative
 *           or decrease, kv_len < q_len with the causal mask, a page number outside the pool, a
 *           *num_seqs_at outside 0..num_seqs; WEFT_EOVERFLOW for a pool longer than memory;
 *           WEFT_EWORKSPACE. Checked before anything is written
 */
WEFT_API weft_status weft_attention_run(const weft_plan *plan, const weft_attention_args *args);

/** Can this context run the descriptor? Answers as weft_linear_supported() does. */
WEFT_API bool weft_attention_supported(weft_context *context, const weft_attention_desc *desc,
                                       const char **reason);

#ifdef __cplusplus
}
#endif
#endif
