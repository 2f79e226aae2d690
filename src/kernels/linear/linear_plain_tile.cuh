// SPDX-License-Identifier: MIT
// Tiles of plain weights: 16 rows by 128 bytes, as the caller has them. Lane (r, c) owns 16 bytes at chunks c and c + 4 of rows r and r + 8; a
// row's chunks change places in odd rows (chunk ^ 4), so that a warp's reads meet every bank.
//
// Function constants: WEFT_FORMAT (1 f32, 2 f16, 3 bf16), WEFT_ALIGNED (rows of W begin at multiples of 16 bytes).
#ifndef WEFT_KERNELS_LINEAR_PLAIN_TILE_CUH
#define WEFT_KERNELS_LINEAR_PLAIN_TILE_CUH

#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"

#define SLOT_BYTES 2048

enum {
    ELEMENT = WEFT_FORMAT == 1 ? 4 : 2,
    TILE_COLUMNS = 128 / ELEMENT,
    CHUNK = 16 / ELEMENT,
};

// A lane copies chunk lane % 8 of rows lane / 8, + 4, + 8, + 12: the first of them from `col` on. What lies past the last
// row is a row that is there.
struct source {
    const uint8_t *from;
    int64_t stride;
    int32_t below, left; // rows below the first; columns from `from` on
};

DEVICE void source_begin(struct source *s, const struct weft__linear_device_args *args,
                         const struct weft__linear_device_part *part, int32_t row_block,
                         int32_t tile, int32_t lane)
{
    const int32_t last = part->rows - 1, row = min(row_block * 16 + lane / 8, last);
    const int32_t col = tile * TILE_COLUMNS + lane % 8 * CHUNK;
    s->stride = part->weight_stride_bytes;
    s->from = (const uint8_t *)part->weight + row * s->stride + (int64_t)col * ELEMENT;
    s->below = last - row;
    s->left = args->cols - col;
}

DEVICE void source_next(struct source *s)
{
    s->from += WEFT_TEAM * 128;
    s->left -= WEFT_TEAM * TILE_COLUMNS;
}

DEVICE void tile_copy(const struct source *s, uint8_t *slot, int32_t lane)
{
#if WEFT_ALIGNED
    const uint64_t policy = policy_once(); // a row of X is to stay in L2, not W
    // What all lanes have of an address ptxas (13.0, sm_90) leaves in a uniform register, and then has none left for the policy: an
    // illegal instruction, [R + UR0], desc[UR1]. What comes from another lane it takes for the lane's own.
    const uint32_t to_slot = __shfl_sync(0xffffffffu, shared_address(slot), 0);
#endif
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t row = k * 4 + lane / 8;
        const uint8_t *from = s->from + min(4 * k, s->below) * s->stride;
        const int32_t at = row * 128 + (lane % 8 ^ (row & 1) << 2) * 16;
#if WEFT_ALIGNED
        const int32_t bytes = s->left * ELEMENT;
        // nothing is read of a chunk that is not there, wherever it would be
        copy_16_async_or_zero_as(to_slot + at, bytes > 0 ? from : s->from - lane % 8 * 16,
                                 bytes < 0    ? 0
                                 : bytes > 16 ? 16
                                              : bytes,
                                 policy);
#else
        for (int32_t i = 0; i < CHUNK; i++)
            if (ELEMENT == 4)
                ((uint32_t *)(slot + at))[i] = i < s->left ? ((const uint32_t *)from)[i] : 0;
            else
                ((uint16_t *)(slot + at))[i] = i < s->left ? ((const uint16_t *)from)[i] : 0;
#endif
    }
}

// Chunk i of the lane's in row r + 8 below.
DEVICE uint4 tile_chunk(const uint8_t *slot, int32_t lane, int32_t i, int32_t below)
{
    const int32_t r = lane / 4, at = (lane % 4 + 4 * i) ^ (r & 1) << 2;
    return *(const uint4 *)(slot + (r + 8 * below) * 128 + at * 16);
}

#endif
