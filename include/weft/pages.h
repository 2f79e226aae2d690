// SPDX-License-Identifier: MIT
/** Pages of a KV cache, moved whole: copied within a cache, swapped out to another and in again, exchanged, or
 *  copied because somebody else has them too (copy on write).
 *
 *  A page is what kv.h says: `page_size` slots of keys and of values for every KV head, and the scales that
 *  belong to it. Codes are copied as they are: scales that do not follow a page are the caller's to keep alike.
 *
 *      WEFT_PAGES_COPY      to[to_pages[i]] = from[from_pages[i]]                     for every pair i
 *      WEFT_PAGES_EXCHANGE  to[to_pages[i]], from[from_pages[i]] = what the other had
 *      WEFT_PAGES_OWN       pair after pair: sequences become the only owners of pages they are about to write
 *
 *          entry = page_table[entries[i]]
 *          references[entry] > 1:  to[to_pages[i]] = from[entry]
 *                                  references[entry]--, references[to_pages[i]] = 1
 *                                  page_table[entries[i]] = to_pages[i], copied[i] = entry
 *          else                    copied[i] = -1, and to_pages[i] has not been used
 *
 *  The caches of further layers follow with WEFT_PAGES_COPY and from_pages = copied.
 *
 *      weft_pages_plan(context, &(weft_pages_desc){.size = sizeof desc, .layout = layout, .max_pairs = 8}, &plan);
 *      weft_pages_run(plan, &(weft_pages_args){.count = 1, .from = pool, .to = pool,
 *                                              .from_pages = (int32_t[]){3}, .to_pages = (int32_t[]){7}, ...});
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
    /** May be the same cache; strides may differ. On a GPU either may lie in pinned memory (device.h). */
    weft_kv_pool from;
    weft_kv_pool to;
    const int32_t *from_pages; /**< [count]; not with WEFT_PAGES_OWN */
    const int32_t *to_pages; /**< [count]; a pair with a page of -1 on either side moves nothing */
    /** NULL, or where the number of pairs stands when the run is done, so that a recorded run may be launched with
     *  another one: 0..count, others become the nearest of them. What the lists hold behind it is not read. */
    const int32_t *count_at;
    int32_t *page_table;    /**< WEFT_PAGES_OWN, and so on */
    int64_t entries_bound;  /**< numbers in page_table */
    const int32_t *entries; /**< [count], places in page_table; -1 = none */
    int32_t *references;    /**< [from.num_pages], how many sequences have a page */
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
 *  Order    WEFT_PAGES_COPY and WEFT_PAGES_EXCHANGE move all pairs at once: a page that one pair writes must be in
 *           no other. WEFT_PAGES_OWN decides pair after pair, so two that share a page may both be named: one of
 *           them keeps it. A spare page (to_pages) must be in no other pair and in no list of pages
 *  Alias    the caches may be one; otherwise they, and the arrays, must not overlap. Values that lie in the keys
 *           (kv.h) move with them
 *  Numerics bytes are copied
 *  Errors   WEFT_EINVAL for NULL pointers, members that the mode has no use for, count outside 0..max_pairs, pages
 *           and entries outside 0..num_pages - 1 and 0..entries_bound - 1 (other than -1), WEFT_PAGES_OWN with two
 *           caches, and WEFT_PAGES_EXCHANGE where the values lie in the keys of one cache alone; WEFT_EOVERFLOW for a
 *           pool that is longer than memory. Checked before anything is written, in arrays that the host can read;
 *           what a recorded run finds in them later moves nothing where it names no page of the cache
 */
WEFT_API weft_status weft_pages_run(const weft_plan *plan, const weft_pages_args *args);

#ifdef __cplusplus
}
#endif
#endif
