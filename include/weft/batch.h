// SPDX-License-Identifier: MIT
/** A batch: what a step shares.
 *
 *  Lengths, page lists, slots, positions, the division of attention into work, cos and sin are the same
 *  for every layer. A batch is made once with the plans that will use it, set once per step, and taken
 *  by weft_kv_append_run() and weft_attention_run() of every layer, which then check none of it again.
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
    int32_t max_pages; /**< entries of all page lists together; 0 = max_seqs times what max_kv_len
                               needs */
    /** Attention and append plans of the same context that will be run with the batch; their bounds are
     *  at least the batch's. They must outlive it. */
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
    /** [num_seqs], how long a sequence may become by weft_batch_advance(): its pages are there. NULL =
     *  kv_lens */
    const int32_t *kv_capacities;
    int64_t num_pages; /**< of the pools; every page number is below */
    /** [q_tokens], NULL = kv_len - q_len + i for query i: what RoPE turns by. */
    const int32_t *positions;
    /** [q_tokens], where append puts token i: page * page_size + slot, -1 = nowhere; NULL = the slot of
     *  key kv_len - q_len + i. */
    const int32_t *slots;
    weft_stream *stream; /**< NULL = the context's own */
    const int32_t
        *kv_starts; /**< [num_seqs], keys before it are padding; NULL = 0. Positions are not
                                   shifted by it: give those that leave padding out */
    /** Tokens of the step, at least cu_q_lens[num_seqs]: those behind are appended nowhere. 0 = as many
     *  as cu_q_lens says or, where the host cannot read it, one per sequence. */
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

/** Frees it; no run that takes it may be under way. batch may be NULL. */
WEFT_API void weft_batch_destroy(weft_batch *batch);

/** Sets what the next runs share. The arrays are copied: they may change or go afterwards.
 *
 *  They may lie in the device's memory, all of them or none: a kernel on the stream then reads them, they
 *  may change when the work on it has been done, and what they hold is the caller's word. The host knows
 *  num_seqs, num_q_tokens and the bounds of the batch, which contents must keep to: entries of page lists
 *  beyond max_pages and tokens beyond num_q_tokens are left out.
 *
 *  Cost     O(num_seqs + q_tokens * rotary_dim + pages)
 *  Errors   WEFT_EINVAL for what weft_attention_run() and weft_kv_append_run() would refuse, for arrays of
 *           both kinds of memory, and while this thread records a program; the batch is then as it was.
 *           WEFT_EUNSUPPORTED for kv_starts on CUDA. Never allocates
 *  Threads  not while a run takes the batch; on a GPU, runs of attention that take one batch follow each
 *           other: on one stream, or ordered by events
 */
WEFT_API weft_status weft_batch_set(weft_batch *batch, const weft_batch_args *args);

/** Every sequence that has a query (each must have just one) is one token further: its length and its
 *  position grow by one, its slot follows from its pages. On a device without help of the host. May be
 *  part of a program: a launch then takes those sequences further that have not reached their capacity,
 *  and what the host knows of the lengths is of no use until the next set. Nor does it know those that
 *  were set from a device's arrays: sequences of one query that have room go on, others stay.
 *
 *  Errors   WEFT_EINVAL if a sequence has more than one query, would exceed its capacity, or if slots
 *           or positions were given: the batch is then as it was
 */
WEFT_API weft_status weft_batch_advance(weft_batch *batch, weft_stream *stream);

/** Where the positions of the tokens are, [max_q_tokens]: memory of the device that stays where it is, of
 *  what the last set or advance on the stream said. The ids of weft_embedding_run() for a table of
 *  positions. NULL if batch is.
 */
WEFT_API const int32_t *weft_batch_positions(const weft_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
