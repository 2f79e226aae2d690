// SPDX-License-Identifier: MIT
// Weights on their way into A fragments of 16-bit products: tiles of 16 rows in shared memory, asked for by a warp
// through the copy engine. Packed blocks: 256 columns as linear_device.h draws them. Plain f16 and bf16
// (WEFT_FORMAT 2, 3): 128 columns, rows 320 bytes apart so that two rows are in different banks.
#ifndef WEFT_KERNELS_LINEAR_GEMM_WEIGHTS_CUH
#define WEFT_KERNELS_LINEAR_GEMM_WEIGHTS_CUH

#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/types.cuh"
#include "src/kernels/linear/linear_gemm_device.h"

enum { ROW_BLOCKS = WEFT__LINEAR_GEMM_TILE_ROWS / 16 };

#if WEFT_FORMAT <= 3

enum { TILE_PAIRS = 2, PLAIN_ROW = 320, SLOT = 16 * PLAIN_ROW, FEW_REGISTERS = 0 };

struct weights_of_tile {
    int32_t nothing;
};

// A row after the other; what lies past the last row or column stays what it was.
DEVICE void tile_ask(const struct weft__linear_gemm_args *args, int32_t block0, int32_t tile,
                     uint32_t to, uint32_t barrier)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const int32_t rows = min(args->rows - block0 * 16, 16 * (int32_t)ROW_BLOCKS);
    const uint32_t bytes = (uint32_t)min(args->cols - tile * 64 * TILE_PAIRS, 64 * TILE_PAIRS) * 2;
    if (lane == 0)
        barrier_expect(barrier, bytes * rows);
    __syncwarp();
    for (int32_t i = lane; i < rows; i += WARP)
        copy_bulk(to + i * PLAIN_ROW,
                  (const uint8_t *)args->weight + (block0 * 16 + i) * args->weight_stride_bytes +
                      (int64_t)tile * 128 * TILE_PAIRS,
                  bytes, barrier);
}

DEVICE void tile_begin(struct weights_of_tile *own, const uint8_t *tile, int32_t pairs, int32_t r)
{
    (void)own, (void)tile, (void)pairs, (void)r;
}

// Lane (r, c) has places c and c + 4 of 16 bytes of rows r and r + 8; linear_gemm_device.h draws the columns.
// `cols`: of the pair, 64 or fewer.
DEVICE void tile_fragments(const struct weights_of_tile *own, const uint8_t *tile, int32_t pairs,
                           int32_t p, int32_t cols, int32_t lane, uint32_t fragment[4][4])
{
    const int32_t r = lane / 4, c = lane % 4;
    (void)own, (void)pairs;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *at = tile + r * PLAIN_ROW + p * 128 + (c + 4 * i) * 16;
        uint4 top = *(const uint4 *)at, bottom = *(const uint4 *)(at + 8 * PLAIN_ROW);
        if ((c + 4 * i) * 8 >= cols) // zeros of X may meet anything but a NaN
            top = bottom = make_uint4(0, 0, 0, 0);
        fragment[2 * i][0] = top.x, fragment[2 * i][2] = top.y;
        fragment[2 * i][1] = bottom.x, fragment[2 * i][3] = bottom.y;
        fragment[2 * i + 1][0] = top.z, fragment[2 * i + 1][2] = top.w;
        fragment[2 * i + 1][1] = bottom.z, fragment[2 * i + 1][3] = bottom.w;
    }
}

#else

#include "src/kernels/linear/linear_fragment.cuh"

enum { TILE_PAIRS = 4, SLOT = TILE_BYTES(4), FEW_REGISTERS = FORMAT_IS_F16_PER_32 };

struct weights_of_tile {
    struct tile_scales scales;
};

DEVICE void tile_ask(const struct weft__linear_gemm_args *args, int32_t block0, int32_t tile,
                     uint32_t to, uint32_t barrier)
{
    const int64_t row_bytes = TILE_SUPER ? (int64_t)(args->cols / 256) * TILE_BYTES(4)
                                         : (int64_t)((args->cols + 63) / 64) * TILE_BYTES(1);
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const int32_t blocks = min((args->rows + 15) / 16 - block0, (int32_t)ROW_BLOCKS);
    const uint32_t bytes =
        (uint32_t)TILE_BYTES(min((args->cols + 63) / 64 - TILE_PAIRS * tile, (int32_t)TILE_PAIRS));
    if (lane == 0)
        barrier_expect(barrier, bytes * blocks);
    __syncwarp();
    if (lane < blocks)
        copy_bulk(to + lane * SLOT,
                  (const uint8_t *)args->weight + (block0 + lane) * row_bytes +
                      (int64_t)tile * TILE_BYTES(4),
                  bytes, barrier);
}

DEVICE void tile_begin(struct weights_of_tile *own, const uint8_t *tile, int32_t pairs, int32_t r)
{
    tile_scales_load(&own->scales, tile, pairs, r);
}

DEVICE void tile_fragments(const struct weights_of_tile *own, const uint8_t *tile, int32_t pairs,
                           int32_t p, int32_t cols, int32_t lane, uint32_t fragment[4][4])
{
    (void)cols; // columns are padded with zeros
    pair_fragments(&own->scales, tile, pairs, p, lane, fragment);
}

#endif

#endif
