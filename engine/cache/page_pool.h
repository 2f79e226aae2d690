// SPDX-License-Identifier: MIT
#ifndef ENGINE_CACHE_PAGE_POOL_H
#define ENGINE_CACHE_PAGE_POOL_H

// The paged KV pool: memory for the keys and values of every layer, given out in pages. A page number
// means the same page in every layer, so a timeline has one list of pages. A page counts the timelines
// that hold it; it is free when none does.
//
// A pool can remember: then full pages are found again by their tokens, also when nobody holds them, until they
// are taken for something else, those that were let go first before others.

#include <weft/weft.h>

#include "engine/base/error.h"

typedef struct page_pool page_pool;

// Values that lie apart from the keys; otherwise they are a part of them, from an element on.
enum { PAGE_POOL_APART = -1 };

// Bytes of a page of one layer: keys, values and their scales; -1 for a layout that is none.
int64_t page_pool_page_bytes(const weft_kv_layout *layout, int32_t values_at);

// Room for `pages` pages in each of `layers` layers on the context's device; the bytes must fit into an
// int64_t. The context must outlive the pool.
page_pool *page_pool_create(weft_context *context, const weft_kv_layout *layout, int32_t values_at,
                            int32_t layers, int32_t pages, engine_error *err);
void page_pool_free(page_pool *pool); // may be NULL

// The pages of one layer, as kernels want them.
weft_kv_pool page_pool_layer(const page_pool *pool, int32_t layer);

int32_t page_pool_pages(const page_pool *pool);
int32_t page_pool_free_pages(const page_pool *pool); // remembered ones among them

// Makes it remember; false when memory is short.
bool page_pool_remember(page_pool *pool, int32_t page_tokens);

// Of a pool that remembers, with links as prefix_index.h has them: enters a full page; looks one up, to be
// shared. 0 and -1 if the pool does not remember.
uint64_t page_pool_enter(page_pool *pool, int32_t page, uint64_t before, const int32_t *ids);
int32_t page_pool_find(const page_pool *pool, uint64_t before, const int32_t *ids, uint64_t *link);

// What a page is entered with; false if it is not.
bool page_pool_entry(const page_pool *pool, int32_t page, uint64_t *before, uint64_t *link,
                     const int32_t **ids);

// The page will be written: it is found no longer.
void page_pool_forget(page_pool *pool, int32_t page);

int32_t page_pool_remembered(const page_pool *pool); // pages that nobody holds and that are found

// Takes a free page for one holder; -1 if there is none.
int32_t page_pool_take(page_pool *pool);

// One holder more, one less.
void page_pool_share(page_pool *pool, int32_t page);
void page_pool_give(page_pool *pool, int32_t page);

// Has the page more than one holder? Such a page must not be written.
bool page_pool_shared(const page_pool *pool, int32_t page);
int32_t page_pool_shared_pages(const page_pool *pool);

// A page's keys and values of all layers, as bytes; false if the device fails.
size_t page_pool_whole_page_bytes(const page_pool *pool);
bool page_pool_read(const page_pool *pool, int32_t page, void *to);
bool page_pool_write(page_pool *pool, int32_t page, const void *from);

// Copies a page's keys and values of all layers to another page, in the order of the context's stream.
bool page_pool_copy(page_pool *pool, int32_t from, int32_t to, engine_error *err);

// Copies a token's keys and values of all layers from slot to slot, likewise; slot n of a page is
// number page * page_size + n.
bool page_pool_copy_slot(page_pool *pool, int32_t from, int32_t to, engine_error *err);

#endif
