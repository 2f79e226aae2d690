// SPDX-License-Identifier: MIT
// linear_gemm_slice.cu with WEFT_BYTES: the slice of X as linear_some.cuh has it, and its products.
#ifndef WEFT_KERNELS_LINEAR_GEMM_SLICE_BYTES_CUH
#define WEFT_KERNELS_LINEAR_GEMM_SLICE_BYTES_CUH

#define SOME_ROWS  WEFT_ROWS
#define SOME_WHOLE WEFT_WHOLE
#define SOME_BUSY  0
#define SOME_LAID  0
#include "src/kernels/linear/linear_some.cuh"

enum { X_TWOS = WEFT_ROWS / 2, X_WARP_ROWS = WEFT_ROWS / WARPS };
static_assert(WEFT_ROWS % WARPS == 0, "a warp has whole rows of X");

// From row to row of codes, in 16 bytes, and from plane to plane of numbers.
DEVICE int32_t x_row(const struct weft__linear_slice_args *args)
{
    return (args->slice_tiles * TILE_PAIRS | 1) * 4;
}

DEVICE int32_t x_plane(const struct weft__linear_slice_args *args)
{
    return args->slice_tiles * TILE_PAIRS * X_TWOS;
}

DEVICE uint4 *x_codes()
{
    return (uint4 *)shared_memory();
}

DEVICE float4 *x_numbers(const struct weft__linear_slice_args *args)
{
    return (float4 *)(x_codes() + WEFT_ROWS * x_row(args));
}

DEVICE const uint8_t *row_of_x(const struct weft__linear_slice_args *args, int32_t n)
{
    return (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
}

// Asks for the codes of the warp's rows of X; what their sums are to be multiplied by goes to shared memory.
DEVICE void codes_ask(const struct weft__linear_slice_args *args, const struct slice *s)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
#pragma unroll 1
    for (int32_t n = warp; n < args->batch; n += WARPS) {
        const uint4 *from = (const uint4 *)(row_of_x(args, n) + s->tile0 * TILE_PAIRS * 64);
#pragma unroll 4
        for (int32_t i = lane; i < s->pairs * 4; i += WARP)
            copy_16_async(shared_address(x_codes() + n * x_row(args) + i), from + i);
    }
    copy_group_end();
    float square[X_WARP_ROWS] = {};
#pragma unroll
    for (int32_t k = 0; k < X_WARP_ROWS; k++) {
        const int32_t n = warp + k * WARPS;
        const float *squares = round_squares((uint8_t *)row_of_x(args, n), args->cols);
#pragma unroll 4
        for (int32_t i = lane; args->norm && n < args->batch && i < (args->cols + 31) / 32;
             i += WARP)
            square[k] += __ldcg(squares + i);
    }
#pragma unroll
    for (int32_t k = 0; k < X_WARP_ROWS; k++) {
        const float total = warp_sum(square[k], WARP);
        const float rms =
            args->norm ? 1.0f / sqrtf(total / (float)args->cols + args->norm_eps) : 1.0f;
        if (lane == 0)
            shared_inverse(args)[warp + k * WARPS] = rms * (1 / X_STEP);
    }
}

// Numbers of the slice's units, two rows of a pair a thread.
DEVICE void numbers_load(const struct weft__linear_slice_args *args, const struct slice *s)
{
    enum { AT_ONCE = 2 };
    const int32_t twos = args->slice_tiles * TILE_PAIRS * X_TWOS;
    const int64_t metas = (int64_t)all_pairs(args) * 64 + s->tile0 * TILE_PAIRS * 16;
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < twos; first += AT_ONCE * THREADS) {
        uint4 two[AT_ONCE][2] = {}; // zeros past the last pair
#pragma unroll
        for (int32_t k = 0; k < 2 * AT_ONCE; k++) {
            const int32_t i = first + k / 2 * THREADS, n = i % X_TWOS * 2 + k % 2;
            if (i / X_TWOS < s->pairs && n < args->batch)
                two[k / 2][k % 2] = __ldcg((const uint4 *)(row_of_x(args, n) + metas) + i / X_TWOS);
        }
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = first + k * THREADS;
            if (i < twos)
                x_two(x_numbers(args), x_plane(args), i / X_TWOS, i % X_TWOS * 2, two[k]);
        }
    }
}

// All of the slice, by all warps; what the rings still have room for is asked for once X has been.
DEVICE void x_load(const struct weft__linear_slice_args *args, const struct slice *s,
                   const struct ring *ring, struct asking *more)
{
    codes_ask(args, s);
    numbers_load(args, s);
    ask_all(args, s, ring, more, args->early, WEFT_STAGES);
    COPY_WAIT(0);
    __syncthreads();
}

// Sums of the warp's rows of W over the slice.
DEVICE void unit_sums(const struct weft__linear_slice_args *args, const struct slice *s,
                      struct ring *ring, struct asking *next, float *d)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const uint32_t top = some_top(args->num_units);
    struct x_of_block x = {x_codes() + lane / 4 * x_row(args), x_numbers(args),
                           (const float2 *)(x_numbers(args) + 2 * x_plane(args)), x_row(args),
                           x_plane(args)};
#pragma unroll
    for (int32_t i = 0; i < SUMS; i++)
        d[i] = 0;
#pragma unroll 1
    for (int32_t t = 0; t < s->steps; t++) {
        const uint8_t *tile = ring->bytes + ring->slot * STEP_BYTES;
        const int32_t pairs = pairs_of(s, t);
        struct tile_scales scales;
        barrier_wait(ring->full + 8 * ring->slot, ring->parity);
        tile_scales_load(&scales, tile, pairs, lane / 4);
        tiles_add<STEP_PAIRS, 1>(&scales, tile, 0, pairs, lane, &x, top, d);
        x.codes += STEP_PAIRS * 4, x.numbers += STEP_PAIRS * X_TWOS;
        x.sums += STEP_PAIRS * WEFT_ROWS * SIXTEENS;
        __syncwarp();
        ask(args, s, ring, next, ring->slot);
        if (++ring->slot == WEFT_STAGES)
            ring->slot = 0, ring->parity ^= 1;
    }
}

#endif
