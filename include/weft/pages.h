// SPDX-License-Identifier: MIT
/** Moving whole pages of a KV cache: copying within a cache, swapping out to another and back, exchanging, and
 *  copy on write.
 *
 *  A page (kv.h) is `page_size` slots of keys and of values for every KV head, with the scales that belong to
 *  it. Codes are copied as they are: scales that are not per page must be the same for both pages, which is
 *  up to the caller.
 *
 *      WEFT_PAGES_COPY      to[to_pages[i]] = from[from_pages[i]]                     for every pair i
 *      WEFT_PAGES_EXCHANGE  to[to_pages[i]], from[from_pages[i]] = what the other had
 *      WEFT_PAGES_OWN       pair after pair: a sequence becomes the only owner of a page that it will write
 *
 *          entry = page_table[entries[i]]
 *          references[entry] > 1:  to[to_pages[i]] = from[entry]
 *                                  references[entry]--, references[to_pages[i]] = 1
 *                                  page_table[entries[i]] = to_pages[i], copied[i] = entry
 *          else                    copied[i] = -1, and to_pages[i] is not used
 *
 *  The caches of further layers follow with WEFT_PAGES_COPY and from_pages = copied.
 *
 *      weft_pages_desc desc = {.size = sizeof desc, .layout = layout, .max_pairs = 8};
 *      weft_pages_plan(context, &desc, &plan);
 *      weft_pages_run(plan, &(weft_pages_args){.size = sizeof(weft_pages_args), .count = 1, .from = pool,
 *                     .to = pool, .from_pages = (int32_t[]){3}, .to_pages = (int32_t[]){7}});
 */
#ifndef WEFT_PAGES_H
#define WEFT_PAGES_H

#include "kv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_pages_mode {
    WEFT_PAGES_COPY = 0,
    WEFT_PAGES_EXCHANGE = 1,
    WEFT_PAGES_OWN = 2,
} weft_pages_mode;

typedef struct weft_pages_desc {
    uint32_t size;
    weft_pages_mode mode;
    weft_kv_layout layout; /**< of both caches */
    int32_t max_pairs;     /**< bound of every run; 0 = 1 */
    int32_t reserved0;
    const char *variant;
    uint64_t reserved[8];
} weft_pages_desc;

typedef struct weft_pages_args {
    uint32_t size;
    int32_t count; /**< pairs, 0..max_pairs */
    /** May be the same cache; strides may differ. On a GPU, either may be in pinned memory (device.h). */
    weft_kv_pool from;
    weft_kv_pool to;
    const int32_t *from_pages; /**< [count]; not with WEFT_PAGES_OWN */
    const int32_t *to_pages; /**< [count]; a pair with a page of -1 on either side moves nothing */
    /** NULL, or where the number of pairs is read when the run is executed, so that a recorded run can be
     *  launched again with another number. It is limited to 0..count; the lists are not read beyond it. */
    const int32_t *count_at;
    int32_t *page_table;    /**< this and the next four: WEFT_PAGES_OWN */
    int64_t entries_bound;  /**< length of page_table */
    const int32_t *entries; /**< [count], places in page_table; -1 = none */
    int32_t *references;    /**< [from.num_pages], number of sequences that own a page */
    int32_t *copied;        /**< [count] */
    weft_stream *stream;    /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_pages_args;

/** Plans moving pages of caches of one layout.
 *
 *  Errors   as weft_kv_append_plan(); WEFT_EINVAL for an unknown mode or a negative max_pairs
 *  Source   copy_blocks and swap_blocks of vLLM; src/kernels/pages/
 */
WEFT_API weft_status weft_pages_plan(weft_context *context, const weft_pages_desc *desc,
                                     weft_plan **out);

/** Runs the plan.
 *
 *  Order    WEFT_PAGES_COPY and WEFT_PAGES_EXCHANGE move all pairs at once: a page that one pair writes must not
 *           be in another pair. WEFT_PAGES_OWN decides pair after pair, so two sequences that share a page
 *           may both be named: one of them keeps it. A spare page (to_pages) must not be in another pair or
 *           in any page list
 *  Alias    both caches may be the same; otherwise they, and the arrays, must not overlap. Values that are
 *           part of the keys (kv.h) move with them
 *  Numerics bytes are copied
 *  Errors   WEFT_EINVAL for NULL pointers, members that the mode does not use, count outside 0..max_pairs,
 *           pages outside 0..num_pages - 1 and entries outside 0..entries_bound - 1 (other than -1),
 *           WEFT_PAGES_OWN with two caches, and WEFT_PAGES_EXCHANGE where only one cache has its values in
 *           the keys; WEFT_EOVERFLOW for a pool longer than memory. Checked before anything is written, in
 *           arrays that the host can read. In a later launch of a recorded run, a pair that names no page
 *           of the cache moves nothing
 */
WEFT_API weft_status weft_pages_run(const weft_plan *plan, const weft_pages_args *args);

#ifdef __cplusplus
}
#endif
#endif
