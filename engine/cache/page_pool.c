// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "engine/cache/page_pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"

//  memory:  layer 0: k pages, v pages | layer 1: k pages, v pages | ...
struct page_pool {
    unsigned char *memory;
    int64_t layer_bytes; // k and v
    int64_t bytes;
    int32_t layers, pages;
    int32_t free_count;
    int32_t
        free_list[]; // a stack; the page given back last is taken first, its lines may be cached
};

page_pool *page_pool_create(const weft_kv_layout *layout, int32_t layers, int32_t pages,
                            engine_error *err)
{
    int64_t page_bytes = weft_kv_page_bytes(layout), layer_bytes, bytes;
    int64_t slots = (int64_t)pages * layout->page_size;
    if (page_bytes < 0 || pages < 1 || slots > INT32_MAX ||
        !checked_mul_i64(page_bytes, pages, &layer_bytes) ||
        !checked_mul_i64(layer_bytes, layers, &bytes)) {
        engine_fail(err, "a KV cache of this size cannot be addressed: choose a smaller context");
        return NULL;
    }
    page_pool *pool = engine_alloc(1, sizeof *pool + (size_t)pages * sizeof pool->free_list[0]);
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!pool || memory == MAP_FAILED) {
        engine_fail(err, "not enough memory for a KV cache of %lld MB: choose a smaller context",
                    (long long)(bytes >> 20));
        if (memory != MAP_FAILED)
            munmap(memory, (size_t)bytes);
        free(pool);
        return NULL;
    }
    madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    *pool = (page_pool){memory, layer_bytes, bytes, layers, pages, pages};
    for (int32_t i = 0; i < pages; i++)
        pool->free_list[i] = pages - 1 - i;
    return pool;
}

void page_pool_free(page_pool *pool)
{
    if (!pool)
        return;
    munmap(pool->memory, (size_t)pool->bytes);
    free(pool);
}

weft_kv_pool page_pool_layer(const page_pool *pool, int32_t layer)
{
    unsigned char *k = pool->memory + layer * pool->layer_bytes;
    return (weft_kv_pool){.k = k, .v = k + pool->layer_bytes / 2, .num_pages = pool->pages};
}

int64_t page_pool_bytes(const page_pool *pool)
{
    return pool->bytes;
}

int32_t page_pool_free_pages(const page_pool *pool)
{
    return pool->free_count;
}

int32_t page_pool_take(page_pool *pool)
{
    return pool->free_count > 0 ? pool->free_list[--pool->free_count] : -1;
}

void page_pool_give(page_pool *pool, int32_t page)
{
    pool->free_list[pool->free_count++] = page;
}
