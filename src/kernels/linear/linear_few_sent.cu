// SPDX-License-Identifier: MIT
// Y = X W^T for 2 to 16 rows of X that come as numbers, W packed from a block format, on devices with clusters (linear_sent.cuh): a block
// rounds the columns that it has itself, as linear_round.cu does, and multiplies by linear_some.cuh.
//
// Function constants besides those of linear_sent.cuh: WEFT_FORMAT (no lattice), WEFT_BATCH (8, 16), WEFT_COLS, WEFT_X_DTYPE, WEFT_SCALE_DTYPE (mlx).
#include "src/kernels/linear/linear_tile.cuh"

#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      0
#define DELIVERY_EARLY 0
#define SLOTS_BEFORE_X (WEFT_SPREAD ? WEFT_SPREAD : WEFT_STAGES - 1)
#define SUMS_SENT      1

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_packed_tile.cuh"
#include "src/kernels/linear/linear_stream.cuh"

#define SOME_ROWS  WEFT_BATCH
#define SOME_WHOLE (WEFT_COLS > 0)
#define SOME_LAID  1
#define SOME_BUSY  0
#define SOME_PAIRS (WEFT_BLOCKS * WEFT_WARPS > 16 ? 1 : 4)
#include "src/kernels/linear/linear_some.cuh"

#include "src/kernels/linear/linear_few_places.cuh"
#include "src/kernels/linear/linear_few_some.cuh"

static_assert(!TILE_GRID && !WEFT_EXACT, "codes that are numbers, or places of a table of sixteen");

enum {
    TILE_COLUMNS = 256,
    // pairs of columns that a warp has, where they are known
    OWN_PAIRS = ((WEFT_COLS / 256 + WEFT_SPLIT - 1) / WEFT_SPLIT * 4 * (COLUMNS / 8) + WEFT_WARPS - 1) / WEFT_WARPS,
};
#define EIGHTS_AT_ONCE (OWN_PAIRS < 1 ? 1 : OWN_PAIRS < 4 ? OWN_PAIRS : 4)
#define EIGHTS_NORM 0
#define EIGHT_COLUMN(c, k) (4 * (c) + 16 * (k))
#define SUM_FACTOR         (1 / X_STEP)

// Four lanes have a group of 32: its codes, by sixteens; scale and sums as they stand in a rounded row.
DEVICE uint2 eight_round(const float x[8], uint32_t codes[2])
{
    uint32_t top = 0;
#pragma unroll
    for (int32_t i = 0; i < 8; i++)
        top = max(top, float_bits(x[i]) & 0x7fffffffu);
    const float largest = bits_float(warp_max_bits(top, 4)), factor = round_factor(largest);
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        codes[k] = 0;
#pragma unroll
        for (int32_t b = 0; b < 4; b++)
            codes[k] |= ((uint32_t)round_code(x[4 * k + b], factor) & 255u) << 8 * b;
    }
    const int32_t both = __dp4a((int32_t)codes[0], 0x01010101, 0) +
                         __dp4a((int32_t)codes[1], 0x01010101, 0) * 65536;
    const int32_t sums = warp_sum_int(both, 4), first = (int16_t)sums;
    return make_uint2(float_bits(largest / 127.0f),
                      (uint32_t)(sums - first) | ((uint32_t)first & 0xffffu));
}

DEVICE void eights_store(const struct stream *s, int32_t pair, int32_t eight, const float x[2][8],
                         bool)
{
    const int32_t n = eight * 8 + s->lane / 4, c = s->lane % 4;
    uint32_t codes[2][2];
    const uint2 first = eight_round(x[0], codes[0]), second = eight_round(x[1], codes[1]);
    *(uint4 *)(shared_x() + (n * x_pairs(s) + pair) * 64 + c * 16) =
        make_uint4(codes[0][0], codes[0][1], codes[1][0], codes[1][1]);
    const uint4 two[2] = {
        make_uint4(first.x, first.y, second.x, second.y),
        make_uint4(
            __shfl_down_sync(0xffffffffu, first.x, 4), __shfl_down_sync(0xffffffffu, first.y, 4),
            __shfl_down_sync(0xffffffffu, second.x, 4), __shfl_down_sync(0xffffffffu, second.y, 4))};
    if (c == 0 && n % 2 == 0)
        x_two(x_numbers(s), x_plane(s), pair, n, two);
}

#include "src/kernels/linear/linear_eights.cuh"

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, bool, float acc[COLUMNS / 2])
{
    tile_multiply(s, args, slot, tile, acc);
}

#include "src/kernels/linear/linear_sent.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_few_sent(const __grid_constant__ struct weft__linear_device_args args)
{
    sent_run(&args, (columns_of(&args) + TILE_COLUMNS - 1) / TILE_COLUMNS);
}
