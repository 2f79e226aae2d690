// SPDX-License-Identifier: MIT
// Moves pages. What copies memory fastest is the C library's business.
#include <stdbool.h>

#include "src/kernels/pages/pages_kernel.h"

static bool is_page(int64_t page, int64_t num_pages)
{
    return page >= 0 && page < num_pages;
}

int32_t weft__pages_count(const struct weft__pages_move *move)
{
    int32_t count = move->count_at ? *move->count_at : move->count;
    return count < 0 ? 0 : count > move->count ? move->count : count;
}

void weft__pages_own(const struct weft__pages_move *move)
{
    const int32_t count = weft__pages_count(move);
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = move->entries[i], spare = move->to_pages[i];
        move->copied[i] = -1;
        if (!is_page(at, move->entries_bound) || !is_page(spare, move->to_num_pages))
            continue;
        const int32_t page = move->page_table[at];
        if (!is_page(page, move->from_num_pages) || move->references[page] <= 1)
            continue;
        move->references[page]--;
        move->references[spare] = 1;
        move->page_table[at] = spare;
        move->copied[i] = page;
    }
}

static void exchange(char *a, char *b, int64_t bytes)
{
    enum { MOST = 1024 };
    char kept[MOST];
    for (int64_t n, at = 0; at < bytes; at += n) {
        n = bytes - at < MOST ? bytes - at : MOST;
        memcpy(kept, a + at, (size_t)n);
        memcpy(a + at, b + at, (size_t)n);
        memcpy(b + at, kept, (size_t)n);
    }
}

static void move_head(const struct weft__pages_plane *plane, int32_t from, int32_t to, int64_t head,
                      bool both)
{
    char *a = plane->from.data + from * plane->from.page + head * plane->from.head;
    char *b = plane->to.data + to * plane->to.page + head * plane->to.head;
    if (a == b)
        return;
    for (int64_t group = 0; group < plane->groups; group++)
        for (int64_t row = 0; row < plane->rows; row++) {
            char *x = a + group * plane->from.group + row * plane->from.row;
            char *y = b + group * plane->to.group + row * plane->to.row;
            if (both)
                exchange(x, y, plane->piece);
            else
                memcpy(y, x, (size_t)plane->piece);
        }
}

weft__pages_fn weft__pages_ref;
void weft__pages_ref(const struct weft__pages_move *move, int64_t row0, int64_t row1)
{
    for (int64_t row = row0; row < row1; row++) {
        const int64_t pair = row / move->heads, head = row % move->heads;
        const int32_t from = move->from_pages[pair], to = move->to_pages[pair];
        if (!is_page(from, move->from_num_pages) || !is_page(to, move->to_num_pages))
            continue;
        for (int32_t i = 0; i < move->num_planes; i++)
            if (head < move->planes[i].heads)
                move_head(&move->planes[i], from, to, head, move->exchange);
    }
}
