// SPDX-License-Identifier: MIT
/** A batch: what all layers of a step share.
 *
 *  Lengths, page lists, slots, positions, cos and sin, and the division of attention into work are the
 *  same for every layer. A batch is made once, with the plans that will use it, and set once per step.
 *  weft_kv_append_run() and weft_attention_run() of every layer take it and check none of it again.
 *
 *      weft_batch_create(context, &desc, &batch);          // plans known, memory allocated
 *      loop: weft_batch_set(batch, &args);                 // checked, copied, divided, cos and sin
 *            layer: append.batch = batch ... attention.batch = batch
 *      or:   weft_batch_advance(batch, NULL);              // every sequence one token further
 */
#ifndef WEFT_BATCH_H
#define WEFT_BATCH_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_batch_desc {
    uint32_t size;
    int32_t max_seqs;     /**< bounds of every set; 0 = 1 */
    int32_t max_q_tokens; /**< queries of all sequences together; 0 = max_seqs */
    int32_t max_kv_len;   /**< longest sequence, in keys */
    int32_t page_size;    /**< that of every plan */
    int32_t max_pages;    /**< entries of all page lists together; 0 = enough for max_seqs sequences
                               of max_kv_len */
    /** The attention and append plans, of the same context, that will be run with the batch. Their bounds
     *  are at least the batch's. They must outlive it. */
    const weft_plan *const *plans;
    int32_t num_plans;
    int32_t reserved0;
    uint64_t reserved[8];
} weft_batch_desc;

typedef struct weft_batch_args {
    uint32_t size;
    int32_t num_seqs;         /**< 0..max_seqs */
    const int32_t *cu_q_lens; /**< [num_seqs + 1], as in weft_attention_args */
    const int32_t *kv_lens;   /**< [num_seqs], the new tokens included */
    const int32_t *page_table;
    int64_t page_table_stride;
    const int32_t *page_indices;
    const int32_t *page_starts; /**< [num_seqs] */
    const int32_t *seq_rows;    /**< [num_seqs] or NULL */
    /** [num_seqs], how long weft_batch_advance() may make a sequence, whose pages must be there. NULL =
     *  kv_lens. */
    const int32_t *kv_capacities;
    int64_t num_pages; /**< of the pools; every page number is smaller */
    /** [q_tokens], the positions for RoPE; NULL = kv_len - q_len + i for query i. */
    const int32_t *positions;
    /** [q_tokens], where append puts token i: page * page_size + slot, -1 = nowhere; NULL = the slot of
     *  key kv_len - q_len + i. */
    const int32_t *slots;
    weft_stream *stream; /**< NULL = the context's own */
    /** [num_seqs], keys before it are padding; NULL = 0. Positions do not take it into account: give
     *  positions that leave the padding out. */
    const int32_t *kv_starts;
    /** Tokens of the step, at least cu_q_lens[num_seqs]; those beyond it are appended nowhere. 0 = as many
     *  as cu_q_lens says or, where the host cannot read that, one per sequence. */
    int32_t num_q_tokens;
    int32_t reserved0;
    uint64_t reserved[6];
} weft_batch_args;

/** Makes a batch; all its memory is allocated here.
 *
 *  Errors   WEFT_EINVAL for bounds beyond those of a plan, a plan of another context or operation, or
 *           one with a mask or page size that the batch cannot serve; WEFT_EOVERFLOW, WEFT_ENOMEM
 */
WEFT_API weft_status weft_batch_create(weft_context *context, const weft_batch_desc *desc,
                                       weft_batch **out);

/** Frees a batch that no run is using. NULL is allowed. */
WEFT_API void weft_batch_destroy(weft_batch *batch);

/** Sets what the next runs share. The arrays are copied: they may change or go afterwards.
 *
 *  The arrays may lie in the device's memory, all of them or none. A kernel on the stream then reads them:
 *  they must stay as they are until it has run, and their contents are not checked. The contents must keep
 *  to num_seqs, num_q_tokens and the bounds of the batch; entries of page lists beyond max_pages and
 *  tokens beyond num_q_tokens are left out.
 *
 *  Cost     O(num_seqs + q_tokens * rotary_dim + pages)
 *  Errors   WEFT_EINVAL for what weft_attention_run() and weft_kv_append_run() would refuse, for arrays in
 *           both kinds of memory, and while this thread records a program; the batch is then unchanged.
 *           WEFT_EUNSUPPORTED for kv_starts on CUDA. Never allocates
 *  Threads  not while a run uses the batch. On a GPU, attention runs that take the same batch must follow
 *           each other: on one stream, or ordered by events
 */
WEFT_API weft_status weft_batch_set(weft_batch *batch, const weft_batch_args *args);

/** Moves every sequence that has a query (just one each) on by one token: its length and position grow by
 *  one, its slot follows from its pages. A GPU does this without the host.
 *
 *  The call may be part of a program. A launch then moves those sequences on that have not reached their
 *  capacity, and the host does not know the lengths again until the next set. It does not know lengths
 *  either that were set from a device's arrays: there, sequences of one query that have room move on, and
 *  the others stay.
 *
 *  Errors   WEFT_EINVAL if a sequence has more than one query, would exceed its capacity, or if slots
 *           or positions were given: the batch is then unchanged
 */
WEFT_API weft_status weft_batch_advance(weft_batch *batch, weft_stream *stream);

/** The positions of the tokens, [max_q_tokens], in memory of the device: the address stays the same, the
 *  contents are those of the last set or advance on the stream. Use them as ids of weft_embedding_run()
 *  for a table of positions. NULL for NULL.
 */
WEFT_API const int32_t *weft_batch_positions(const weft_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
