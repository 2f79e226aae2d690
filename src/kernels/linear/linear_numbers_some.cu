// SPDX-License-Identifier: MIT
// Y = X W^T for 2 to 8 rows of X, W of bf16 as the caller has it, on devices with clusters.
//
// X is three numbers of bf16, whose sum it is, in shared memory; a tile (linear_plain_tile.cuh) is A of four products of 16 columns as it lies,
// and what a lane multiplies its 16 bytes of W by are 16 bytes of each term:
//
//      [64 columns][half of them][term][lane (n, c)]   columns 8 c .. 8 c + 7 of the half in row n
//
// A tensor core cuts off what it adds, so sums of 64 columns are added up in f32.
//
// Function constants besides those of linear_sent.cuh: WEFT_FORMAT (3), WEFT_BATCH (8), WEFT_X_DTYPE.
#define COLUMNS        WEFT_BATCH
#define X_ROUNDED      0
#define DELIVERY_EARLY 0

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_plain_tile.cuh"
#include "src/kernels/linear/linear_stream.cuh"
#include "src/kernels/linear/linear_terms.cuh"

static_assert(WEFT_FORMAT == 3 && WEFT_ALIGNED, "weights of bf16");

#define ACCUMULATORS       4
#define SUM_FACTOR         1.0f
#define EIGHT_COLUMN(c, k) (8 * (c) + 4 * (k))

enum {
    TERMS = WEFT__LINEAR_TERMS,
    TERM_BYTES = WARP * 16,
    HALF_BYTES = TERMS * TERM_BYTES, // of 32 columns
};

DEVICE void eights_store(const struct stream *s, int32_t pair, float x[2][8])
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        uint8_t *to = shared_x() + (2 * pair + half) * HALF_BYTES + s->lane * 16;
        float *own = x[half];
#pragma unroll
        for (int32_t term = 0; term < TERMS; term++)
            *(uint4 *)(to + term * TERM_BYTES) =
                make_uint4(term_take(&own[0], &own[1]), term_take(&own[2], &own[3]),
                           term_take(&own[4], &own[5]), term_take(&own[6], &own[7]));
    }
}

#include "src/kernels/linear/linear_eights.cuh"

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, float acc[ACCUMULATORS])
{
    float d[TERMS][4] = {{0}};
    (void)args;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint4 top = tile_chunk(slot, s->lane, i, 0), bottom = tile_chunk(slot, s->lane, i, 1);
        const uint32_t first[4] = {top.x, bottom.x, top.y, bottom.y};
        const uint32_t second[4] = {top.z, bottom.z, top.w, bottom.w};
        const uint8_t *x = shared_x() + (tile * 2 + i) * HALF_BYTES + s->lane * 16;
#pragma unroll
        for (int32_t term = 0; term < TERMS; term++) {
            const uint4 b = *(const uint4 *)(x + term * TERM_BYTES);
            mma_bf16(d[term], first, b.x, b.y);
            mma_bf16(d[term], second, b.z, b.w);
        }
    }
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        float sum = 0;
#pragma unroll
        for (int32_t term = TERMS - 1; term >= 0; term--)
            sum += d[term][k];
        acc[k] += sum;
    }
}

#include "src/kernels/linear/linear_sent.cuh"

extern "C" __global__ void __launch_bounds__(WEFT_WARPS * 32, WEFT_BLOCKS)
    weft_linear_numbers_some(const __grid_constant__ struct weft__linear_device_args args)
{
    sent_run(&args, (args.cols + TILE_COLUMNS - 1) / TILE_COLUMNS);
}
