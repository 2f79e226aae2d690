// SPDX-License-Identifier: MIT
/** Attention of sequences that share a prefix, in two levels. Each prefix is attended to once for the
 *  queries of all sequences that begin with it, so its keys and values are read once instead of once per
 *  sequence; each sequence attends to its own keys; the states of both are merged (merge.h).
 *
 *      queries    |  s0  |  s1  |  s2  |  s3  |        sequences of one prefix are neighbours
 *      prefixes   |     p0      |     p1      |        prefix_cu_q_lens = 0, queries of s0 s1, of all
 *      own keys   |  k0  |  k1  |  k2  |  k3  |        attention->kv_lens counts only these
 *
 *  Up to the order of sums, the result is that of weft_attention_run() over prefix and own keys in one list.
 *  A sequence without a prefix has a prefix of 0 keys.
 */
#ifndef WEFT_CASCADE_H
#define WEFT_CASCADE_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_cascade weft_cascade;

typedef struct weft_cascade_desc {
    uint32_t size;
    int32_t max_prefixes;   /**< of a run; 0 = 1 */
    int32_t max_prefix_len; /**< longest prefix, in keys */
    int32_t reserved0;
    /** The attention of the sequences; max_kv_len bounds their own keys. Its mask must let all queries of a
     *  sequence see all keys of its prefix: no window, local_chunk or ring_len, no ALiBi, mask_value or
     *  block-sparse flags. It neither appends nor rounds its result (WEFT_ATTENTION_APPEND, _OUT_ROUNDED).
     *  Sinks count once. max_workspace_bytes is for the whole cascade. */
    const weft_attention_desc *attention;
    uint64_t reserved[8];
} weft_cascade_desc;

typedef struct weft_cascade_args {
    uint32_t size;
    int32_t num_prefixes; /**< 0..max_prefixes */
    /** As for weft_attention_run(): queries, results and pool; lengths and pages of the own keys; the
     *  workspace of the cascade. num_seqs_at must be NULL. */
    const weft_attention_args *attention;
    /** [num_prefixes + 1], first 0, last the number of all queries. */
    const int32_t *prefix_cu_q_lens;
    const int32_t *prefix_lens; /**< [num_prefixes], keys */
    const int32_t *prefix_page_table;
    int64_t prefix_page_table_stride;
    const int32_t *prefix_page_indices; /**< flat lists instead, as in weft_attention_args */
    const int32_t *prefix_page_starts;
    /** The prefixes as a batch, made with the plan weft_cascade_plan_of(cascade, 0). All members above,
     *  other than attention, must then be 0. */
    const weft_batch *prefix_batch;
    uint64_t reserved[8];
} weft_cascade_args;

/** Makes the plans of both levels and of the merge.
 *
 *  Errors   as weft_attention_plan() and weft_merge_plan(); WEFT_EUNSUPPORTED for what is
 *           excluded above
 *  Source   the multi-level cascade of FlashInfer
 */
WEFT_API weft_status weft_cascade_create(weft_context *context, const weft_cascade_desc *desc,
                                         weft_cascade **out);

/** Frees a cascade. NULL is allowed. */
WEFT_API void weft_cascade_destroy(weft_cascade *cascade);

/** Bytes of workspace that a run needs, 64-byte aligned: an upper bound from the descriptor's maxima. */
WEFT_API size_t weft_cascade_workspace_bytes(const weft_cascade *cascade);

/** The plan of a level, for weft_batch_create(): 0 = the prefixes, 1 = the own keys; NULL for others. */
WEFT_API const weft_plan *weft_cascade_plan_of(const weft_cascade *cascade, int32_t level);

/** Runs two attentions and a merge, in this order, on attention->stream.
 *
 *  Alias, numerics, threads   as weft_attention_run()
 *  Errors   as weft_attention_run(); WEFT_EINVAL if the prefixes do not cover all queries
 */
WEFT_API weft_status weft_cascade_run(const weft_cascade *cascade, const weft_cascade_args *args);

#ifdef __cplusplus
}
#endif
#endif
