// SPDX-License-Identifier: MIT
// Tiles of packed weights (linear_device.h) on their way into the rings of linear_stream.cuh.
//
// Function constants: WEFT_TEAM, WEFT_COLS, WEFT_TWIN.
#ifndef WEFT_KERNELS_LINEAR_PACKED_TILE_CUH
#define WEFT_KERNELS_LINEAR_PACKED_TILE_CUH

#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_columns.cuh"
#include "src/kernels/linear/linear_tile.cuh"

#define TILE_SLOT  ((TILE_BYTES(4) + 15) / 16 * 16)
#define SLOT_BYTES (TILE_SLOT * (WEFT_TWIN ? 2 : 1))

// Pairs of tile t of a row.
DEVICE int32_t tile_pairs(int32_t cols, int32_t tile)
{
    int32_t left = (cols + 63) / 64 - 4 * tile;
    return TILE_SUPER || WEFT_COLS || left > 4 ? 4 : left;
}

// The lane's first 16 bytes of a tile, and how many pairs the row of tiles has from there on.
struct source {
    const uint8_t *from;
    int32_t pairs;
};

DEVICE void source_begin(struct source *s, const struct weft__linear_device_args *args,
                         const struct weft__linear_device_part *part, int32_t row_block,
                         int32_t tile, int32_t lane)
{
    const int64_t row_bytes = TILE_SUPER ? (int64_t)(columns_of(args) / 256) * TILE_BYTES(4)
                                         : (int64_t)((columns_of(args) + 63) / 64) * TILE_BYTES(1);
    s->from = (const uint8_t *)part->weight + row_block * row_bytes +
              (int64_t)tile * TILE_BYTES(4) + lane * 16;
    s->pairs = (columns_of(args) + 63) / 64 - 4 * tile;
}

DEVICE void source_next(struct source *s)
{
    s->from += WEFT_TEAM * TILE_BYTES(4);
    s->pairs -= WEFT_TEAM * 4;
}

// WEFT_TWIN, where columns are a constant of whole tiles: from one row block to the next.
enum { ROW_BLOCK_BYTES = WEFT_COLS / 256 * TILE_BYTES(4) };

DEVICE void tile_copy(const struct source *s, uint8_t *slot, int32_t lane)
{
    const uint32_t to = shared_address(slot) + lane * 16;
    const uint64_t policy = policy_once(); // a row of X is to stay in L2, not W
    const int32_t bytes =
        (TILE_SUPER || WEFT_COLS ? TILE_BYTES(4) : TILE_BYTES(min(s->pairs, 4))) - lane * 16;
#pragma unroll
    for (int32_t i = 0; i < TILE_SLOT; i += WARP * 16)
        if ((WEFT_COLS && i + WARP * 16 <= TILE_BYTES(4)) || i < bytes) {
            copy_16_async_as(to + i, s->from + i, policy);
#if WEFT_TWIN // whose columns are a constant
            copy_16_async_as(to + TILE_SLOT + i, s->from + ROW_BLOCK_BYTES + i, policy);
#endif
        }
}

#endif
