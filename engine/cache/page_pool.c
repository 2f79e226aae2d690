// SPDX-License-Identifier: MIT
#include "engine/cache/page_pool.h"

#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/cache/prefix_index.h"

// The planes of a layer, each an array with an entry per page; scales only where the format needs them.
enum { KEYS, VALUES, KEY_SCALES, VALUE_SCALES, PLANES };

//  memory:  layer 0: keys, values, scales of keys, of values | layer 1: ...
struct page_pool {
    weft_context *context;
    unsigned char *memory;
    size_t plane_bytes[PLANES]; // of one page of one layer
    size_t bytes;
    weft_kv_layout layout;
    int32_t values_at;
    int32_t layers, pages;
    int32_t free_count;
    int32_t *free_list; // a stack; the page given back last is taken first, its lines may be cached
    int32_t *holders;   // [pages]
    prefix_index *index; // NULL: it does not remember
};

static void measure_planes(const weft_kv_layout *layout, int32_t values_at, int64_t bytes[PLANES])
{
    int64_t slots = (int64_t)layout->num_kv_heads * layout->page_size;
    bytes[KEYS] = weft_kv_key_bytes(layout);
    bytes[VALUES] = weft_kv_value_bytes(layout);
    bytes[KEY_SCALES] = layout->scaling ? slots * (int64_t)sizeof(float) : 0;
    bytes[VALUE_SCALES] = layout->v_scaling ? slots * (int64_t)sizeof(float) : 0;
    if (values_at != PAGE_POOL_APART)
        bytes[VALUES] = bytes[VALUE_SCALES] = 0;
}

int64_t page_pool_page_bytes(const weft_kv_layout *layout, int32_t values_at)
{
    int64_t bytes[PLANES];
    measure_planes(layout, values_at, bytes);
    if (bytes[KEYS] < 0 || bytes[VALUES] < 0)
        return -1;
    return bytes[KEYS] + bytes[VALUES] + bytes[KEY_SCALES] + bytes[VALUE_SCALES];
}

// Page `page` of a plane of a layer; NULL for a plane without bytes.
static unsigned char *place(const page_pool *pool, int32_t layer, int plane, int32_t page)
{
    size_t pages = (size_t)layer * (size_t)pool->pages, all = 0, before = 0;
    for (int p = 0; p < PLANES; p++) {
        all += pool->plane_bytes[p];
        before += p < plane ? pool->plane_bytes[p] : 0;
    }
    if (pool->plane_bytes[plane] == 0)
        return NULL;
    return pool->memory + pages * all + (size_t)pool->pages * before +
           (size_t)page * pool->plane_bytes[plane];
}

page_pool *page_pool_create(weft_context *context, const weft_kv_layout *layout, int32_t values_at,
                            int32_t layers, int32_t pages, engine_error *err)
{
    page_pool *pool = engine_alloc(1, sizeof *pool);
    if (pool) {
        pool->context = context;
        int64_t bytes[PLANES];
        measure_planes(layout, values_at, bytes);
        pool->layout = *layout;
        pool->values_at = values_at;
        for (int p = 0; p < PLANES; p++)
            pool->plane_bytes[p] = (size_t)bytes[p];
        pool->bytes =
            (size_t)page_pool_page_bytes(layout, values_at) * (size_t)pages * (size_t)layers;
        pool->layers = layers;
        pool->pages = pool->free_count = pages;
        pool->free_list = engine_alloc((size_t)pages, sizeof *pool->free_list);
        pool->holders = engine_alloc((size_t)pages, sizeof *pool->holders);
        void *memory;
        if (weft_memory_allocate(context, WEFT_MEMORY_DEVICE, pool->bytes, &memory) == WEFT_OK)
            pool->memory = memory;
    }
    if (!pool || !pool->memory || !pool->free_list || !pool->holders) {
        engine_fail(err, "not enough memory for a KV cache of %lld MB: choose a smaller context",
                    pool ? (long long)(pool->bytes >> 20) : 0);
        page_pool_free(pool);
        return NULL;
    }
    for (int32_t i = 0; i < pages; i++)
        pool->free_list[i] = pages - 1 - i;
    return pool;
}

void page_pool_free(page_pool *pool)
{
    if (!pool)
        return;
    weft_memory_free(pool->context, pool->memory);
    free(pool->free_list);
    free(pool->holders);
    prefix_index_free(pool->index);
    free(pool);
}

// Values as a part of the keys: they have their strides, and their scales.
static weft_kv_plane values_in(const page_pool *pool, const weft_kv_plane *keys)
{
    const weft_kv_layout *layout = &pool->layout;
    char *first = keys->data;
    weft_kv_plane values = *keys;
    values.data = first + weft_dtype_row_bytes(layout->dtype, pool->values_at);
    values.token_stride = layout->head_dim;
    values.head_stride = values.token_stride * layout->page_size;
    values.page_stride = values.head_stride * layout->num_kv_heads;
    return values;
}

weft_kv_pool page_pool_layer(const page_pool *pool, int32_t layer)
{
    if (pool->values_at != PAGE_POOL_APART) {
        weft_kv_pool shared = {.k = {.data = place(pool, layer, KEYS, 0),
                                     .scales = (float *)(void *)place(pool, layer, KEY_SCALES, 0)},
                               .num_pages = pool->pages};
        shared.v = values_in(pool, &shared.k);
        return shared;
    }
    return (weft_kv_pool){.k = {.data = place(pool, layer, KEYS, 0),
                                .scales = (float *)(void *)place(pool, layer, KEY_SCALES, 0)},
                          .v = {.data = place(pool, layer, VALUES, 0),
                                .scales = (float *)(void *)place(pool, layer, VALUE_SCALES, 0)},
                          .num_pages = pool->pages};
}

int32_t page_pool_pages(const page_pool *pool)
{
    return pool->pages;
}

int32_t page_pool_free_pages(const page_pool *pool)
{
    return pool->free_count + page_pool_remembered(pool);
}

int32_t page_pool_take(page_pool *pool)
{
    int32_t page = -1;
    if (pool->free_count > 0)
        page = pool->free_list[--pool->free_count];
    else if (pool->index && (page = prefix_index_oldest(pool->index)) >= 0)
        prefix_index_remove(pool->index, page);
    if (page >= 0)
        pool->holders[page] = 1;
    return page;
}

void page_pool_share(page_pool *pool, int32_t page)
{
    if (pool->holders[page]++ == 0)
        prefix_index_wake(pool->index, page);
}

void page_pool_give(page_pool *pool, int32_t page)
{
    if (--pool->holders[page] > 0)
        return;
    if (pool->index && prefix_index_has(pool->index, page))
        prefix_index_rest(pool->index, page);
    else
        pool->free_list[pool->free_count++] = page;
}

// --- remembering --------------------------------------------------------------------------------------

bool page_pool_remember(page_pool *pool, int32_t page_tokens)
{
    if (!pool->index)
        pool->index = prefix_index_create(pool->pages, page_tokens);
    return pool->index != NULL;
}

uint64_t page_pool_enter(page_pool *pool, int32_t page, uint64_t before, const int32_t *ids)
{
    uint64_t link = 0;
    if (!pool->index || prefix_index_find(pool->index, before, ids, &link) >= 0)
        return link;
    // It may be entered behind a page that is gone: nobody would find it there.
    prefix_index_remove(pool->index, page);
    return prefix_index_add(pool->index, page, before, ids);
}

int32_t page_pool_find(const page_pool *pool, uint64_t before, const int32_t *ids, uint64_t *link)
{
    return pool->index ? prefix_index_find(pool->index, before, ids, link) : -1;
}

bool page_pool_entry(const page_pool *pool, int32_t page, uint64_t *before, uint64_t *link,
                     const int32_t **ids)
{
    return pool->index && prefix_index_entry(pool->index, page, before, link, ids);
}

void page_pool_forget(page_pool *pool, int32_t page)
{
    if (pool->index)
        prefix_index_remove(pool->index, page);
}

int32_t page_pool_remembered(const page_pool *pool)
{
    return pool->index ? prefix_index_resting(pool->index) : 0;
}

bool page_pool_shared(const page_pool *pool, int32_t page)
{
    return pool->holders[page] > 1;
}

int32_t page_pool_shared_pages(const page_pool *pool)
{
    int32_t count = 0;
    for (int32_t page = 0; page < pool->pages; page++)
        count += page_pool_shared(pool, page);
    return count;
}

bool page_pool_copy(page_pool *pool, int32_t from, int32_t to, engine_error *err)
{
    for (int32_t n = 0; n < PLANES * pool->layers; n++)
        if (pool->plane_bytes[n % PLANES] > 0 &&
            weft_copy(pool->context, place(pool, n / PLANES, n % PLANES, to),
                      place(pool, n / PLANES, n % PLANES, from), pool->plane_bytes[n % PLANES],
                      NULL) != WEFT_OK)
            return engine_fail(err, "a page of the KV cache cannot be copied: %s",
                               weft_error_text(pool->context));
    return true;
}

// One plane of one layer: [head][slot][row].
static bool copy_rows(page_pool *pool, int32_t layer, int plane, int32_t from, int32_t to)
{
    int32_t page_size = pool->layout.page_size, heads = pool->layout.num_kv_heads;
    size_t head_bytes = pool->plane_bytes[plane] / (size_t)heads;
    size_t row_bytes = head_bytes / (size_t)page_size;
    const unsigned char *source = place(pool, layer, plane, from / page_size);
    unsigned char *target = place(pool, layer, plane, to / page_size);
    source += (size_t)(from % page_size) * row_bytes;
    target += (size_t)(to % page_size) * row_bytes;
    for (int32_t head = 0; head < heads; head++)
        if (weft_copy(pool->context, target + (size_t)head * head_bytes,
                      source + (size_t)head * head_bytes, row_bytes, NULL) != WEFT_OK)
            return false;
    return true;
}

bool page_pool_copy_slot(page_pool *pool, int32_t from, int32_t to, engine_error *err)
{
    for (int32_t n = 0; n < PLANES * pool->layers; n++)
        if (pool->plane_bytes[n % PLANES] > 0 && !copy_rows(pool, n / PLANES, n % PLANES, from, to))
            return engine_fail(err, "a row of the KV cache cannot be copied: %s",
                               weft_error_text(pool->context));
    return true;
}

size_t page_pool_whole_page_bytes(const page_pool *pool)
{
    size_t bytes = 0;
    for (int p = 0; p < PLANES; p++)
        bytes += pool->plane_bytes[p];
    return bytes * (size_t)pool->layers;
}

bool page_pool_read(const page_pool *pool, int32_t page, void *to)
{
    unsigned char *at = to;
    for (int32_t n = 0; n < PLANES * pool->layers; n++) {
        size_t bytes = pool->plane_bytes[n % PLANES];
        if (bytes > 0 && weft_copy(pool->context, at, place(pool, n / PLANES, n % PLANES, page),
                                   bytes, NULL) != WEFT_OK)
            return false;
        at += bytes;
    }
    return weft_stream_synchronize(pool->context, NULL) == WEFT_OK;
}

bool page_pool_write(page_pool *pool, int32_t page, const void *from)
{
    const unsigned char *at = from;
    for (int32_t n = 0; n < PLANES * pool->layers; n++) {
        size_t bytes = pool->plane_bytes[n % PLANES];
        if (bytes > 0 && weft_copy(pool->context, place(pool, n / PLANES, n % PLANES, page), at,
                                   bytes, NULL) != WEFT_OK)
            return false;
        at += bytes;
    }
    return weft_stream_synchronize(pool->context, NULL) == WEFT_OK;
}
