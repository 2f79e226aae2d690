// SPDX-License-Identifier: MIT
// Where the bytes of pages are, as the host and devices say it: plain C, strides in bytes. A plane is keys,
// values, or the scales of either; its head h of page p is `groups` times `rows` pieces of `piece` bytes.
#ifndef WEFT_KERNELS_PAGES_DEVICE_H
#define WEFT_KERNELS_PAGES_DEVICE_H

#include <stdint.h>

enum { WEFT__PAGES_PLANES = 4 };

struct weft__pages_side {
    char *data;
    int64_t page, head, group, row;
};

struct weft__pages_plane {
    struct weft__pages_side from, to;
    int32_t heads, groups, rows; // heads 1: all heads have the same bytes
    int64_t piece;
};

struct weft__pages_move {
    struct weft__pages_plane planes[WEFT__PAGES_PLANES];
    int32_t num_planes, heads; // most heads of a plane
    int64_t from_num_pages, to_num_pages;
    const int32_t *from_pages, *to_pages; // WEFT_PAGES_OWN: from_pages is copied
    const int32_t *count_at;              // or NULL
    int32_t count, exchange;
    // WEFT_PAGES_OWN; else NULL
    int32_t *page_table, *references, *copied;
    const int32_t *entries;
    int64_t entries_bound;
};

#endif
