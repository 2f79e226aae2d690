// SPDX-License-Identifier: MIT
// Y = X W^T for up to 16 rows of X, W packed from a block format (linear_device.h).
//
// Rounded X (WEFT_EXACT 0): products of 8-bit codes on tensor cores, whose int32 results start as the bits of a float, so that
// nothing is converted and a format's offset costs nothing: linear_few_one.cuh for one row, linear_some.cuh for several.
// Exact X: every product in f32. WEFT_ROUND_X: X comes as numbers and is rounded by every block on its way into shared
// memory, which for one row of X that is not too long is sooner done than a launch; 2: no norm precedes, and blocks of two launches share an SM.
//
// Function constants besides those of linear_stream.cuh: WEFT_FORMAT, WEFT_BATCH (1, 8, 16; exact: 1..4),
// WEFT_EXACT, WEFT_TWIN (a warp takes tiles of two row blocks at a time: up to 8 rows of X, columns a constant, nothing follows), WEFT_SPREAD (copies of the
// table of a lattice, 0, 16, 32), WEFT_ROUND_X, WEFT_X_OUTSIDE (one row of X is read where it lies, f32 in rows of whole tiles), WEFT_X_DTYPE (of numbers), WEFT_SCALE_DTYPE (mlx), WEFT_BLOCKS (blocks a SM that registers must allow).
#if WEFT_SPREAD
#define GRID_COPIES WEFT_SPREAD
#endif
#include "src/kernels/linear/linear_tile.cuh"

#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      (!WEFT_EXACT && !WEFT_ROUND_X)
#define DELIVERY_EARLY (SIXTEENS == 1)
#if TILE_GRID
#define TABLES_LOAD grid_load
#if GRID_COPIES > 1
#define TABLE_IN_SHARED (GRID_POINTS * GRID_STEP)
#endif
#endif

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_columns.cuh"
#include "src/kernels/linear/linear_device.h"

#include "src/kernels/linear/linear_packed_tile.cuh"

#include "src/kernels/linear/linear_stream.cuh"

#if TILE_GRID && GRID_COPIES > 1
DEVICE uint8_t *grid_table()
{
    return shared_table();
}
#endif

#if WEFT_EXACT
#define ACCUMULATORS (2 * COLUMNS)
#elif WEFT_BATCH == 1
#define ACCUMULATORS (2 * SLOT_BLOCKS)
#else
#define ACCUMULATORS (COLUMNS / 2 * SLOT_BLOCKS)
#endif

#if WEFT_EXACT
#include "src/kernels/linear/linear_few_exact.cuh"
#else
#if WEFT_BATCH > 1
#define SOME_ROWS  WEFT_BATCH
#define SOME_WHOLE (WEFT_COLS > 0)
#define SOME_LAID  1
#define SOME_BUSY  (WEFT_GATE || WEFT_ROUND)
#include "src/kernels/linear/linear_some.cuh"
#endif
#include "src/kernels/linear/linear_few_x.cuh"

#if WEFT_BATCH == 1
#include "src/kernels/linear/linear_few_one.cuh"

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, float acc[ACCUMULATORS])
{
    const int32_t cols = columns_of(args);
    const uint8_t *row =
        WEFT_X_OUTSIDE ? (const uint8_t *)args->x + x_row(s, 0) * weft__linear_rounded_stride(cols)
                       : shared_x();
    const struct one_x x =
        one_x_of(row, row + (WEFT_X_OUTSIDE ? (cols + 63) / 64 : x_pairs(s)) * 64, tile, s->lane);
    one_multiply(&x, slot, tile_pairs(cols, s->tile0 + tile), s->lane, acc);
}
#else
#include "src/kernels/linear/linear_few_some.cuh"
#endif

DEVICE void sums_store(const struct stream *s, float *sums, const float acc[ACCUMULATORS])
{
    int32_t r = s->lane / 4, c = s->lane % 4;
    float *at = sums + s->warp * COLUMNS * SUM_STRIDE + r;
#if WEFT_BATCH == 1
#pragma unroll
    for (int32_t k = 0; k < SLOT_BLOCKS; k++) {
        float top = warp_sum(acc[2 * k], 4), bottom = warp_sum(acc[2 * k + 1], 4);
        if (c == 0)
            at[k * SUM_BLOCK] = top, at[k * SUM_BLOCK + 8] = bottom;
    }
#else
#pragma unroll
    for (int32_t i = 0; i < COLUMNS / 2; i++)
#pragma unroll
        for (int32_t k = 0; k < SLOT_BLOCKS; k++)
            at[k * SUM_BLOCK + (i / 4 * 8 + 2 * c + i % 2) * SUM_STRIDE + i % 4 / 2 * 8] =
                acc[k * (COLUMNS / 2) + i] * (1 / X_STEP);
#endif
}

#endif

#include "src/kernels/linear/linear_run.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_few(const __grid_constant__ struct weft__linear_device_args args)
{
    stream_run(&args, (columns_of(&args) + 255) / 256);
}
