// SPDX-License-Identifier: MIT
// The pages that a worker remembers, in a file: each with the page before it, so that they are found again by their
// tokens when the program starts anew.
//
//     "weft page set 1\n" | fingerprint u64 | bytes of a page u64 | pages u32 | tokens of a page u32
//     for each page: the number of the one before it, from 1 on, 0: none, u32 | ids i32[tokens] | its bytes
//     the sum of all before it u64
//
// A page stands behind the one before it.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/file_map.h"
#include "engine/base/summed_file.h"
#include "engine/session/session.h"

static const char magic[16] = {"weft page set 1\n"};

typedef struct set_head {
    char magic[16];
    uint64_t fingerprint, page_bytes;
    uint32_t pages, page_tokens;
} set_head;

_Static_assert(sizeof(set_head) == 40, "the head of a file has no gaps");

enum { ID_BYTES = ENGINE_PAGE_TOKENS * sizeof(int32_t) };

// --- writing ------------------------------------------------------------------------------------------

typedef struct known_page {
    uint64_t link, before;
    const int32_t *ids;
    int32_t page;
    uint32_t number; // in the file, from 1 on; 0: it is left out
} known_page;

static int by_link(const void *a, const void *b)
{
    const known_page *x = a, *y = b;
    return x->link < y->link ? -1 : x->link > y->link;
}

// Links grow, so a page stands behind the one before it. Left out: those behind a page that is gone, which nobody
// would find. Returns how many are known, and how many of these have a number.
static size_t collect(const page_pool *pool, known_page *list, uint32_t *numbered)
{
    size_t count = 0;
    *numbered = 0;
    for (int32_t page = 0; page < page_pool_pages(pool); page++) {
        known_page *one = &list[count];
        one->page = page;
        count += page_pool_entry(pool, page, &one->before, &one->link, &one->ids);
    }
    qsort(list, count, sizeof *list, by_link);
    for (size_t i = 0; i < count; i++) {
        const known_page key = {.link = list[i].before},
                         *before = bsearch(&key, list, i, sizeof *list, by_link);
        if (list[i].before == 0 || (before && before->number))
            list[i].number = ++*numbered;
    }
    return count;
}

static uint32_t number_of(const known_page *list, size_t count, uint64_t link)
{
    const known_page key = {.link = link};
    const known_page *found = link ? bsearch(&key, list, count, sizeof *list, by_link) : NULL;
    return found ? found->number : 0;
}

static bool write_pages(const page_pool *pool, const known_page *list, size_t count, void *page,
                        summed_file *file)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t before = number_of(list, count, list[i].before);
        if (!list[i].number)
            continue;
        if (!page_pool_read(pool, list[i].page, page))
            return false;
        summed_file_put(file, &before, sizeof before);
        summed_file_put(file, list[i].ids, ID_BYTES);
        summed_file_put(file, page, page_pool_whole_page_bytes(pool));
    }
    return true;
}

bool engine_worker_save_pages(const engine_worker *worker, const char *path, engine_error *err)
{
    const page_pool *pool = worker->pool;
    set_head head = {.fingerprint = session_fingerprint(worker),
                     .page_bytes = page_pool_whole_page_bytes(pool),
                     .page_tokens = ENGINE_PAGE_TOKENS};
    known_page *list = engine_alloc((size_t)page_pool_pages(pool), sizeof *list);
    void *page = engine_alloc(head.page_bytes, 1);
    summed_file file;
    if (!list || !page) {
        free(list);
        free(page);
        return engine_fail(err, "not enough memory to write pages");
    }
    size_t count = collect(pool, list, &head.pages);
    memcpy(head.magic, magic, sizeof magic);
    summed_file_begin(&file, path);
    summed_file_put(&file, &head, sizeof head);
    bool fine = summed_file_end(&file, write_pages(pool, list, count, page, &file));
    const int error = errno;
    free(list);
    free(page);
    return fine || engine_fail(err, "%s cannot be written: %s; choose another place", path,
                               strerror(error));
}

// --- reading ------------------------------------------------------------------------------------------

static bool check(const engine_worker *worker, const file_map *map, set_head *head,
                  engine_error *err)
{
    size_t bytes = summed_file_check(map->data, map->size_bytes);
    if (bytes < sizeof *head)
        return engine_fail(err, "it is damaged");
    memcpy(head, map->data, sizeof *head);
    if (memcmp(head->magic, magic, sizeof magic) != 0)
        return engine_fail(err, "it is no file of pages that are remembered");
    if (head->fingerprint != session_fingerprint(worker) ||
        head->page_tokens != ENGINE_PAGE_TOKENS ||
        head->page_bytes != page_pool_whole_page_bytes(worker->pool))
        return engine_fail(err, "it is of another model, or of other formats of its cache");
    size_t each = sizeof(uint32_t) + ID_BYTES + head->page_bytes;
    bytes -= sizeof *head;
    return (bytes / each == head->pages && bytes % each == 0) || engine_fail(err, "it is damaged");
}

static bool are_tokens(const int32_t *ids, int32_t vocab)
{
    for (int i = 0; i < ENGINE_PAGE_TOKENS; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return false;
    return true;
}

// links[n]: of page number n; [0] is the beginning of a text.
static bool take_pages(engine_worker *worker, const char *at, uint32_t pages, uint64_t *links,
                       engine_error *err)
{
    page_pool *pool = worker->pool;
    int32_t ids[ENGINE_PAGE_TOKENS];
    for (uint32_t n = 1; n <= pages; n++, at += page_pool_whole_page_bytes(pool)) {
        uint32_t before;
        memcpy(&before, at, sizeof before);
        memcpy(ids, at + sizeof before, sizeof ids);
        at += sizeof before + sizeof ids;
        if (before >= n || !are_tokens(ids, worker->model->config.vocab))
            return engine_fail(err, "it is damaged");
        if (page_pool_free_pages(pool) == page_pool_remembered(pool))
            return true; // the pool is full
        int32_t page = page_pool_take(pool);
        bool fine = page_pool_write(pool, page, at);
        links[n] = fine ? page_pool_enter(pool, page, links[before], ids) : 0;
        page_pool_give(pool, page);
        if (!fine)
            return engine_fail(err, "a page cannot be copied");
    }
    return true;
}

bool engine_worker_restore_pages(engine_worker *worker, const char *path, engine_error *err)
{
    file_map map = {0};
    set_head head;
    if (!worker->settings.options.keep_prefixes)
        return engine_fail(err, "the worker does not remember pages (keep_prefixes)");
    if (!file_map_open(&map, path, err))
        return false;
    bool fine = check(worker, &map, &head, err);
    uint64_t *links = fine ? engine_alloc((size_t)head.pages + 1, sizeof *links) : NULL;
    if (fine && !links)
        fine = engine_fail(err, "not enough memory to read pages");
    fine = fine && take_pages(worker, (const char *)map.data + sizeof head, head.pages, links, err);
    free(links);
    file_map_close(&map);
    return fine || engine_fail_in(err, path);
}
