// SPDX-License-Identifier: MIT
// Y = X W^T for 2 to 16 rows of X, W of bf16 or f16 as the caller has it, on devices with clusters (linear_sent.cuh).
//
// A tile (linear_plain_tile.cuh) is A of a product as it lies, and a lane multiplies its 16 bytes of W, eight columns, by as many of rows n, n + 8 of
// X in shared memory: as numbers (linear_sent_numbers.cuh), or eight rows in parts (linear_sent_terms.cuh).
// A tensor core cuts off what it adds, so sums of 64 columns are added up in f32.
//
// Function constants besides those of linear_sent.cuh: WEFT_FORMAT (2, 3), WEFT_BATCH (8, 16), WEFT_AS_NUMBERS (1 of sixteen), WEFT_X_DTYPE.
#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      0
#define DELIVERY_EARLY 0
#define SLOTS_BEFORE_X 1 // X is as much as all of the ring
#define SUMS_SENT      1
#define SUM_FACTOR     1.0f
#define NORM_BEFORE    1

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_plain_tile.cuh"
#include "src/kernels/linear/linear_stream.cuh"
#include "src/kernels/linear/linear_terms.cuh"

static_assert((WEFT_FORMAT == 2 || WEFT_FORMAT == 3) && WEFT_ALIGNED, "weights of 16 bits");

enum {
    PIECE_BYTES = WARP * 16,
    HALF_BYTES = 32 * COLUMNS * WEFT__LINEAR_SENT_BYTES(WEFT_FORMAT == 3, WEFT_AS_NUMBERS),
};

#if WEFT_AS_NUMBERS
#include "src/kernels/linear/linear_sent_numbers.cuh"
#else
#include "src/kernels/linear/linear_sent_terms.cuh"
#endif

#include "src/kernels/linear/linear_sent.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_numbers_some(const __grid_constant__ struct weft__linear_device_args args)
{
    sent_run(&args, (args.cols + TILE_COLUMNS - 1) / TILE_COLUMNS);
}
