// SPDX-License-Identifier: MIT
// Y = X W^T for up to 16 rows of X that come as numbers, W packed from a block format, on devices with clusters (linear_sent.cuh): a block
// rounds the columns that it has itself, as linear_round.cu does, and multiplies one (long) row by linear_few_one.cuh, several by
// linear_some.cuh.
//
// Function constants besides those of linear_sent.cuh: WEFT_FORMAT (no lattice), WEFT_BATCH (1, 8, 16), WEFT_COLS, WEFT_X_DTYPE, WEFT_SCALE_DTYPE (mlx).
#include "src/kernels/linear/linear_tile.cuh"

#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      0
#define DELIVERY_EARLY 0
#define SLOTS_BEFORE_X (WEFT_BATCH == 1 ? WEFT_STAGES / 2 : 0) // of several rows X is to come soon
#define SUMS_SENT      1

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_packed_tile.cuh"
#include "src/kernels/linear/linear_stream.cuh"

static_assert(!TILE_GRID && !WEFT_EXACT, "codes that are numbers, or places of a table of sixteen");

#define NORM_BEFORE 0

enum { TILE_COLUMNS = 256 };

#if WEFT_BATCH == 1
#include "src/kernels/linear/linear_few_sent_one.cuh"
#else
#include "src/kernels/linear/linear_few_sent_some.cuh"
#endif

#include "src/kernels/linear/linear_sent.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_few_sent(const __grid_constant__ struct weft__linear_device_args args)
{
    sent_run(&args, (columns_of(&args) + TILE_COLUMNS - 1) / TILE_COLUMNS);
}
