// SPDX-License-Identifier: MIT
// Moving pages. First, where pages become owned, one thread decides pair after pair; then a block moves a
// pair's head, in units as large as addresses and strides allow.
//
// Constants: UNIT, bytes: 16, 4, 2 or 1
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/pages/pages_device.h"

#if UNIT == 16
typedef uint4 unit;
#elif UNIT == 4
typedef uint32_t unit;
#elif UNIT == 2
typedef uint16_t unit;
#else
typedef uint8_t unit;
#endif

DEVICE bool is_page(int64_t page, int64_t num_pages)
{
    return page >= 0 && page < num_pages;
}

DEVICE int32_t count_of(const struct weft__pages_move &move)
{
    int32_t count = move.count_at ? *move.count_at : move.count;
    return count < 0 ? 0 : count > move.count ? move.count : count;
}

extern "C" __global__ void weft_pages_own(const __grid_constant__ struct weft__pages_move move)
{
    wait_for_previous();
    const int32_t count = count_of(move);
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = move.entries[i], spare = move.to_pages[i];
        move.copied[i] = -1;
        if (!is_page(at, move.entries_bound) || !is_page(spare, move.to_num_pages))
            continue;
        const int32_t page = move.page_table[at];
        if (!is_page(page, move.from_num_pages) || move.references[page] <= 1)
            continue;
        move.references[page]--;
        move.references[spare] = 1;
        move.page_table[at] = spare;
        move.copied[i] = page;
    }
}

DEVICE void move_head(const struct weft__pages_plane &plane, int64_t from, int64_t to, int64_t head,
                      bool both)
{
    char *a = plane.from.data + from * plane.from.page + head * plane.from.head;
    char *b = plane.to.data + to * plane.to.page + head * plane.to.head;
    const int64_t units = plane.piece / UNIT, rows = (int64_t)plane.groups * plane.rows;
    if (a == b)
        return;
    for (int64_t i = threadIdx.x; i < rows * units; i += blockDim.x) {
        const int64_t row = i / units, at = i % units;
        const int64_t group = row / plane.rows, slot = row % plane.rows;
        unit *x = (unit *)(a + group * plane.from.group + slot * plane.from.row) + at;
        unit *y = (unit *)(b + group * plane.to.group + slot * plane.to.row) + at;
        const unit kept = *x;
        if (both)
            *x = *y;
        *y = kept;
    }
}

extern "C" __global__ void weft_pages(const __grid_constant__ struct weft__pages_move move)
{
    wait_for_previous();
    const int64_t pair = blockIdx.x;
    if (pair >= count_of(move))
        return;
    const int32_t from = move.from_pages[pair], to = move.to_pages[pair];
    if (!is_page(from, move.from_num_pages) || !is_page(to, move.to_num_pages))
        return;
    for (int64_t head = blockIdx.y; head < move.heads; head += gridDim.y)
        for (int32_t i = 0; i < move.num_planes; i++)
            if (head < move.planes[i].heads)
                move_head(move.planes[i], from, to, head, move.exchange);
}
