// SPDX-License-Identifier: MIT
#include "engine/cache/page_pool.h"

#include <stdlib.h>

#include "engine/base/alloc.h"

//  memory:  layer 0: k pages, v pages | layer 1: k pages, v pages | ...
struct page_pool {
    weft_context *context;
    unsigned char *memory;
    size_t page_bytes; // of the keys, or of the values, of one layer
    size_t bytes;
    int32_t layers, pages;
    int32_t free_count;
    int32_t *free_list; // a stack; the page given back last is taken first, its lines may be cached
    int32_t *holders;   // [pages]
};

// The pages of keys (plane 2 * layer) or of values (plane 2 * layer + 1).
static unsigned char *plane(const page_pool *pool, int32_t n)
{
    return pool->memory + (size_t)n * (size_t)pool->pages * pool->page_bytes;
}

page_pool *page_pool_create(weft_context *context, const weft_kv_layout *layout, int32_t layers,
                            int32_t pages, engine_error *err)
{
    page_pool *pool = engine_alloc(1, sizeof *pool);
    if (pool) {
        pool->context = context;
        pool->page_bytes = (size_t)weft_kv_page_bytes(layout) / 2;
        pool->bytes = 2 * pool->page_bytes * (size_t)pages * (size_t)layers;
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
    free(pool);
}

weft_kv_pool page_pool_layer(const page_pool *pool, int32_t layer)
{
    return (weft_kv_pool){.k.data = plane(pool, 2 * layer),
                          .v.data = plane(pool, 2 * layer + 1),
                          .num_pages = pool->pages};
}

int32_t page_pool_pages(const page_pool *pool)
{
    return pool->pages;
}

int32_t page_pool_free_pages(const page_pool *pool)
{
    return pool->free_count;
}

int32_t page_pool_take(page_pool *pool)
{
    if (pool->free_count == 0)
        return -1;
    int32_t page = pool->free_list[--pool->free_count];
    pool->holders[page] = 1;
    return page;
}

void page_pool_share(page_pool *pool, int32_t page)
{
    pool->holders[page]++;
}

void page_pool_give(page_pool *pool, int32_t page)
{
    if (--pool->holders[page] == 0)
        pool->free_list[pool->free_count++] = page;
}

bool page_pool_shared(const page_pool *pool, int32_t page)
{
    return pool->holders[page] > 1;
}

bool page_pool_copy(page_pool *pool, int32_t from, int32_t to, engine_error *err)
{
    for (int32_t n = 0; n < 2 * pool->layers; n++)
        if (weft_copy(pool->context, plane(pool, n) + (size_t)to * pool->page_bytes,
                      plane(pool, n) + (size_t)from * pool->page_bytes, pool->page_bytes,
                      NULL) != WEFT_OK)
            return engine_fail(err, "a page of the KV cache cannot be copied: %s",
                               weft_error_text(pool->context));
    return true;
}
