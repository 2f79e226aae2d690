// SPDX-License-Identifier: MIT
#include "engine/cache/prefix_index.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/alloc.h"

enum { NONE = -1 };

typedef struct page_entry {
    uint64_t before, link; // link 0: not entered
    int32_t next;          // of the same bucket
    int32_t older, newer;  // that rest
    bool rests;
} page_entry;

struct prefix_index {
    int32_t page_tokens;
    uint32_t mask;
    int32_t *buckets; // [mask + 1] the first page of each
    page_entry *pages;
    int32_t *ids; // [pages][page_tokens]
    uint64_t links;
    int32_t oldest, newest, resting;
};

prefix_index *prefix_index_create(int32_t pages, int32_t page_tokens)
{
    uint32_t buckets = 16;
    while (buckets < 2u * (uint32_t)pages && buckets < 1u << 30)
        buckets *= 2;
    prefix_index *index = engine_alloc(1, sizeof *index);
    if (!index)
        return NULL;
    *index = (prefix_index){
        .page_tokens = page_tokens, .mask = buckets - 1, .oldest = NONE, .newest = NONE};
    index->buckets = engine_alloc(buckets, sizeof *index->buckets);
    index->pages = engine_alloc((size_t)pages, sizeof *index->pages);
    index->ids = engine_alloc((size_t)pages * (size_t)page_tokens, sizeof *index->ids);
    if (!index->buckets || !index->pages || !index->ids) {
        prefix_index_free(index);
        return NULL;
    }
    for (uint32_t i = 0; i < buckets; i++)
        index->buckets[i] = NONE;
    return index;
}

void prefix_index_free(prefix_index *index)
{
    if (!index)
        return;
    free(index->buckets);
    free(index->pages);
    free(index->ids);
    free(index);
}

static size_t page_bytes(const prefix_index *index)
{
    return (size_t)index->page_tokens * sizeof *index->ids;
}

static int32_t *ids_of(const prefix_index *index, int32_t page)
{
    return index->ids + (size_t)page * (size_t)index->page_tokens;
}

static int32_t *bucket(const prefix_index *index, uint64_t before, const int32_t *ids)
{
    return &index->buckets[XXH3_64bits_withSeed(ids, page_bytes(index), before) & index->mask];
}

int32_t prefix_index_find(const prefix_index *index, uint64_t before, const int32_t *ids,
                          uint64_t *link)
{
    for (int32_t page = *bucket(index, before, ids); page != NONE; page = index->pages[page].next)
        if (index->pages[page].before == before &&
            memcmp(ids_of(index, page), ids, page_bytes(index)) == 0) {
            *link = index->pages[page].link;
            return page;
        }
    return NONE;
}

uint64_t prefix_index_add(prefix_index *index, int32_t page, uint64_t before, const int32_t *ids)
{
    uint64_t link;
    if (prefix_index_find(index, before, ids, &link) != NONE)
        return link;
    int32_t *first = bucket(index, before, ids);
    page_entry *entry = &index->pages[page];
    entry->before = before;
    entry->link = ++index->links;
    entry->next = *first;
    *first = page;
    memcpy(ids_of(index, page), ids, page_bytes(index));
    return entry->link;
}

bool prefix_index_entry(const prefix_index *index, int32_t page, uint64_t *before, uint64_t *link,
                        const int32_t **ids)
{
    *before = index->pages[page].before;
    *link = index->pages[page].link;
    *ids = ids_of(index, page);
    return *link != 0;
}

bool prefix_index_has(const prefix_index *index, int32_t page)
{
    return index->pages[page].link != 0;
}

void prefix_index_remove(prefix_index *index, int32_t page)
{
    page_entry *entry = &index->pages[page];
    if (entry->link == 0)
        return;
    prefix_index_wake(index, page);
    int32_t *at = bucket(index, entry->before, ids_of(index, page));
    while (*at != page)
        at = &index->pages[*at].next;
    *at = entry->next;
    entry->link = 0;
}

// --- resting ------------------------------------------------------------------------------------------

void prefix_index_rest(prefix_index *index, int32_t page)
{
    page_entry *entry = &index->pages[page];
    entry->rests = true;
    entry->older = index->newest;
    entry->newer = NONE;
    if (index->newest != NONE)
        index->pages[index->newest].newer = page;
    else
        index->oldest = page;
    index->newest = page;
    index->resting++;
}

void prefix_index_wake(prefix_index *index, int32_t page)
{
    page_entry *entry = &index->pages[page];
    if (!entry->rests)
        return;
    entry->rests = false;
    *(entry->older != NONE ? &index->pages[entry->older].newer : &index->oldest) = entry->newer;
    *(entry->newer != NONE ? &index->pages[entry->newer].older : &index->newest) = entry->older;
    index->resting--;
}

int32_t prefix_index_resting(const prefix_index *index)
{
    return index->resting;
}

int32_t prefix_index_oldest(const prefix_index *index)
{
    return index->oldest;
}
