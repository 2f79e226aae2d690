// SPDX-License-Identifier: MIT
// The norm before the kernels of linear_stream.cuh: 1/rms of the rows of X, whose squares are added up on the way. A warp of a
// team keeps those of rows warp, warp + WEFT_TEAM, ..., and delivers these rows.
#ifndef WEFT_KERNELS_LINEAR_STREAM_NORM_CUH
#define WEFT_KERNELS_LINEAR_STREAM_NORM_CUH

#include "src/kernels/linear/linear_stream.cuh"

enum { ROWS_OF_WARP = (COLUMNS + WEFT_TEAM - 1) / WEFT_TEAM };

// One row of X of known columns: its sums of squares are asked for together with X and added up behind it, by a warp that does
// not deliver where the barrier before a delivery is everybody's.
enum {
    SQUARES =
        X_ROUNDED && COLUMNS == 1 && WEFT_COLS <= 8192 ? (WEFT_COLS / 32 + WARP - 1) / WARP : 0,
    NORM_NUMBERS = SQUARES ? SQUARES : ROWS_OF_WARP,
    NORM_WARP = SQUARES && TEAMS == 1 ? WEFT_TEAM - 1 : 0,
};

#if X_ROUNDED

// A lane's part of the sums that lie beside a rounded X.
DEVICE void norm_ask(const struct stream *s, const struct weft__linear_device_args *args,
                     float square[NORM_NUMBERS])
{
    if (SQUARES) {
        const bool asks = args->norm && s->warp == NORM_WARP;
        const int64_t stride = weft__linear_rounded_stride(columns_of(args));
        const float *squares =
            round_squares((uint8_t *)args->x + x_row(s, 0) * stride, columns_of(args)) + s->lane;
#pragma unroll
        for (int32_t j = 0; j < SQUARES; j++)
            square[j] =
                asks && s->lane + j * WARP < WEFT_COLS / 32 ? __ldcg(squares + j * WARP) : 0.0f;
        return;
    }
    enum { AT_ONCE = WEFT_LONG_X ? 4 : 1 };
#pragma unroll
    for (int32_t k = 0; k < ROWS_OF_WARP; k++) {
        int32_t n = s->warp + k * WEFT_TEAM;
        square[k] = 0;
        if (!args->norm || n >= s->batch)
            continue;
        const float *squares = round_squares(
            (uint8_t *)args->x + x_row(s, n) * weft__linear_rounded_stride(columns_of(args)),
            columns_of(args));
#pragma unroll 1
        for (int32_t i = s->lane; i < columns_of(args) / 32; i += AT_ONCE * WARP) {
            float part[AT_ONCE];
#pragma unroll
            for (int32_t j = 0; j < AT_ONCE; j++)
                part[j] =
                    i + j * WARP < columns_of(args) / 32 ? __ldcg(squares + i + j * WARP) : 0.0f;
#pragma unroll
            for (int32_t j = 0; j < AT_ONCE; j++)
                square[k] += part[j];
        }
    }
}

#else

// Squares of numbers, by thread, become sums of warps.
DEVICE float *norm_parts()
{
    return (float *)(shared_memory() + RING_BYTES + SUMS_BYTES + RMS_BYTES + PLACES_BYTES);
}

// The thread's share of row n; with columns split over a cluster it has seen only some of them.
DEVICE void norm_part(const struct stream *s, const struct weft__linear_device_args *args,
                      int32_t n, float square)
{
    if (!args->norm)
        return;
    if (WEFT_SPLIT > 1) {
        square = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < columns_of(args); i += THREADS) {
            float x = element<WEFT_X_DTYPE>(args->x, x_row(s, n) * args->x_stride + i);
            square += x * x;
        }
    }
    square = warp_sum(square, 32);
    if (s->lane == 0)
        norm_parts()[n * WEFT_WARPS + warp_of_thread()] = square;
}

// What column i of X is multiplied by as it is read.
DEVICE float norm_factor(const struct weft__linear_device_args *args, int32_t i)
{
    return args->norm_weight ? args->norm_weight[i] + args->norm_weight_plus : 1.0f;
}

// The same of columns i .. i + 3, i a multiple of 4, the first `count` of which are there.
DEVICE float4 norm_factors(const struct weft__linear_device_args *args, int32_t i, int32_t count)
{
    if (!args->norm_weight)
        return make_float4(1, 1, 1, 1);
    float4 w = count >= 4 && fours_aligned<DTYPE_F32>(args->norm_weight, 0)
                   ? four_elements<DTYPE_F32>(args->norm_weight, i)
                   : first_elements<DTYPE_F32>(args->norm_weight, i, count);
    const float plus = args->norm_weight_plus;
    return make_float4(w.x + plus, w.y + plus, w.z + plus, w.w + plus);
}

#endif

// 1/rms of the rows that a warp of the first team delivers.
DEVICE void norm_store(const struct stream *s, const struct weft__linear_device_args *args,
                       float square[NORM_NUMBERS])
{
#pragma unroll
    for (int32_t k = 0; k < ROWS_OF_WARP; k++) {
        int32_t n = NORM_WARP ? 0 : s->warp + k * WEFT_TEAM;
        if (NORM_WARP ? s->warp != NORM_WARP : n >= s->batch)
            break;
#pragma unroll
        for (int32_t j = 1; j < SQUARES; j++)
            square[0] += square[j];
#if !X_ROUNDED
        square[k] = s->lane < WEFT_WARPS ? norm_parts()[n * WEFT_WARPS + s->lane] : 0.0f;
#endif
        float total = warp_sum(square[k], 32);
        if (s->lane == 0)
            shared_rms()[n] = 1.0f / sqrtf(total / (float)columns_of(args) + args->norm_eps);
    }
}

// For all teams; after a barrier since X was read.
DEVICE void norm_settle(const struct stream *s, const struct weft__linear_device_args *args,
                        float square[NORM_NUMBERS])
{
    if (!args->norm)
        return;
    if (TEAMS == 1 || team_of_thread() == 0)
        norm_store(s, args, square);
    if (TEAMS == 1)
        __syncwarp();
    else
        __syncthreads();
}

#endif
