// SPDX-License-Identifier: MIT
// Tiles of keys and values that the copy engine brings, four instructions for all of them (WEFT_BOXES: sm_90, caches of 16 bits,
// pages of whole sixteens, head_dim a multiple of 64). What cp.async asks for in lines of 128 bytes arrives as rows of a head:
// NOTES.md has what that is worth.
//
// A plane of a tile is boxes of 64 columns by KEYS rows, 128 bytes a row, in which 16 bytes stand at place i ^ (row % 8): eight rows
// of a ldmatrix then lie in different banks.
//
//      plane: columns 0..63 of key 0, of key 1 ... | columns 64..127 of key 0 ...
//
// WEFT_BOXES 3 (attention_abreast.cu): tokens one after the other, TOKEN_APART bytes from one to the next, an odd number of lines of 128
// bytes, in each of which 16 bytes stand at place i ^ (number of the line % 8).
//
// A box has whole sixteens of a page. Rows of it that nobody sees, or that the launch itself appends (WEFT_APPEND), are mended
// when it has arrived.
#ifndef WEFT_KERNELS_ATTENTION_BOXES_CUH
#define WEFT_KERNELS_ATTENTION_BOXES_CUH

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/cuda/memory.cuh"
#if WEFT_BOXES
#include "src/kernels/cuda/bulk.cuh"
#endif

static_assert(WEFT_BOXES != 1 || alignof(struct weft__attention_device_args) == 64,
              "where tensor maps lie in the arguments");

enum {
    BOX_BYTES = KEYS * 128,
#if WEFT_BOXES == 3
    TILE_ROW_BYTES = TOKEN_APART, // from row to row
#else
    TILE_ROW_BYTES = WEFT_BOXES == 1 ? 128 : ROW_BYTES,
#endif
};

// Where ldmatrix finds row `row` of a plane, `second`: the second 16 of every 32 bytes; and 32 bytes i of it.
DEVICE uint32_t tile_row(uint32_t plane, int32_t row, int32_t second)
{
#if WEFT_BOXES == 1
    return plane + row * 128 + (second ^ row % 8) * 16;
#elif WEFT_BOXES == 3
    const uint32_t at = plane + row * TILE_ROW_BYTES;
    return at + (second ^ at / 128 % 8) * 16;
#else
    return plane + row * ROW_BYTES + second * 16;
#endif
}

DEVICE uint32_t tile_piece(uint32_t row, int32_t i)
{
#if WEFT_BOXES == 1
    return (row ^ i % 4 * 32) + i / 4 * BOX_BYTES;
#elif WEFT_BOXES == 3 // 128 bytes further on another number of lines of 128 is crossed over
    const uint32_t line = row / 128, crossed = (line ^ (line + i / 4)) % 8 * 16;
    return (row ^ crossed ^ i % 4 * 32) + i / 4 * 128;
#else
    return row + i * 32;
#endif
}

#if WEFT_BOXES == 1

// 16 bytes `chunk` of a row.
DEVICE int32_t box_chunk(int32_t row, int32_t chunk)
{
    return chunk / 8 * BOX_BYTES + row * 128 + (chunk % 8 ^ row % 8) * 16;
}

// Asks for keys and values of the sixteen from slot `first` of a page on; one lane. They are read once: L2 gives them up before what every
// launch reads again.
DEVICE void boxes_ask(const void *k_map, const void *v_map, uint32_t to, int32_t kv_head,
                      int32_t page, int32_t first, uint32_t barrier)
{
    barrier_expect(barrier, 2 * PLANE_BYTES);
#pragma unroll
    for (int32_t p = 0; p < 2; p++)
#pragma unroll
        for (int32_t i = 0; i < HEAD / 64; i++)
            copy_box_of_pile_as(to + p * PLANE_BYTES + i * BOX_BYTES, p ? v_map : k_map, i * 64,
                                first, kv_head, page, barrier, policy_once());
}

// Brings them into L2, no more; one lane.
DEVICE void boxes_prefetch(const void *k_map, const void *v_map, int32_t kv_head, int32_t page,
                           int32_t first)
{
#pragma unroll
    for (int32_t p = 0; p < 2; p++)
#pragma unroll
        for (int32_t i = 0; i < HEAD / 64; i++)
            prefetch_box_of_pile(p ? v_map : k_map, i * 64, first, kv_head, page);
}

// Row `fresh` of a tile that has arrived, from where the new key and its value lie, ROW_BYTES apart.
DEVICE void boxes_fresh(uint8_t *slot, int32_t fresh, const uint8_t *from, int32_t lane)
{
    enum { EACH = HEAD / 8 };
#pragma unroll 1
    for (int32_t i = lane; i < 2 * EACH; i += WARP)
        *(uint4 *)(slot + i / EACH * PLANE_BYTES + box_chunk(fresh, i % EACH)) =
            *(const uint4 *)(from + i / EACH * ROW_BYTES + i % EACH * 16);
}

// Zeros for the values that nobody sees, those before row `begin` and from `end` on, for a weight of 0 does not silence them.
DEVICE void boxes_clear(uint8_t *slot, int32_t begin, int32_t end, int32_t lane)
{
    enum { EACH = HEAD / 8 };
#pragma unroll 1
    for (int32_t i = lane; i < KEYS * EACH; i += WARP)
        if (i / EACH < begin || i / EACH >= end)
            *(uint4 *)(slot + PLANE_BYTES + box_chunk(i / EACH, i % EACH)) = make_uint4(0, 0, 0, 0);
}

// Both, where the tile has a new key (from not NULL).
DEVICE void boxes_mend(uint8_t *slot, int32_t begin, int32_t end, int32_t fresh,
                       const uint8_t *from, int32_t lane)
{
    __syncwarp();
    if (from)
        boxes_fresh(slot, fresh, from, lane);
    boxes_clear(slot, begin, end, lane);
    bulk_fence(); // before the slot's next box
    __syncwarp();
}

#endif
#endif
