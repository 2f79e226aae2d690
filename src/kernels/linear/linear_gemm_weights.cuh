// SPDX-License-Identifier: MIT
// Weights on their way into A fragments of 16-bit products: tiles of 16 rows in shared memory, asked for by a warp
// through the copy engine, 256 columns as linear_device.h draws them.
#ifndef WEFT_KERNELS_LINEAR_GEMM_WEIGHTS_CUH
#define WEFT_KERNELS_LINEAR_GEMM_WEIGHTS_CUH

#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/types.cuh"
#include "src/kernels/linear/linear_gemm_device.h"

enum { ROW_BLOCKS = WEFT__LINEAR_GEMM_TILE_ROWS / 16 };

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
                           int32_t p, int32_t lane, uint32_t fragment[4][4])
{
    pair_fragments(&own->scales, tile, pairs, p, lane, fragment);
}

#endif
