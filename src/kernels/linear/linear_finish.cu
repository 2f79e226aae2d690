// SPDX-License-Identifier: MIT
// What follows products that other launches left as f32: sums of slices of the columns, factors of rows of X, bias, gate,
// residual, element type, rounding.
// A thread takes four columns of a row; where results are rounded a warp takes 32, a column a lane. Function constants:
// WEFT_GATE, WEFT_ROUND, WEFT_Y_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

// The products of all slices, in the order of the columns.
DEVICE float whole_sum(const struct weft__linear_finish_args *args, const float *of, int32_t slices,
                       int64_t at)
{
    const int64_t slice = (int64_t)args->batch * args->rows;
    float sum = of[at];
#pragma unroll 4
    for (int32_t i = 1; i < slices; i++)
        sum += of[i * slice + at];
    return sum;
}

// The result at a column of row n.
DEVICE float finished(const struct weft__linear_finish_args *args, int64_t n, int32_t col)
{
    const int64_t at = n * args->stride + col;
    const float scale = args->scales ? args->scales[n] : 1.0f;
    const float first = whole_sum(args, args->first, args->first_slices, at) * scale +
                        (args->first_bias ? args->first_bias[col] : 0.0f);
    const float second =
        WEFT_GATE ? whole_sum(args, args->second, args->second_slices, at) * scale : 0.0f;
    const float out =
        gated<WEFT_GATE>(first, second + (args->second_bias ? args->second_bias[col] : 0.0f));
    return args->residual
               ? out + element<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + col)
               : out;
}

#if WEFT_ROUND
DEVICE void finish(const struct weft__linear_finish_args *args, int64_t n)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    const int32_t col = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    float out = 0, weight = 1;
    if (col - lane >= args->rows)
        return;
    if (col < args->rows) {
        out = finished(args, n, col);
        if (args->y)
            set_element<WEFT_Y_DTYPE>(args->y, n * args->y_stride + col, out);
        if (args->next_weight)
            weight = args->next_weight[col] + args->next_weight_plus;
    }
    if (args->y)
        out = as_stored<WEFT_Y_DTYPE>(out);
    round_results((uint8_t *)args->rounded + n * weft__linear_rounded_stride(args->rows),
                  args->rows, col, lane, out, weight);
}
#else
DEVICE float4 four(const float *from, int64_t at)
{
    return from ? *(const float4 *)(from + at) : make_float4(0, 0, 0, 0);
}

DEVICE float4 four_sums(const struct weft__linear_finish_args *args, const float *of,
                        int32_t slices, int64_t at)
{
    const int64_t slice = (int64_t)args->batch * args->rows;
    float4 sum = four(of, at);
#pragma unroll 4
    for (int32_t i = 1; i < slices; i++) {
        const float4 more = four(of, i * slice + at);
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    return sum;
}

// Are four columns one piece of every array?
DEVICE bool in_fours(const struct weft__linear_finish_args *args)
{
    const uint64_t f32 = (uint64_t)args->first | (uint64_t)args->second |
                         (uint64_t)args->first_bias | (uint64_t)args->second_bias;
    return f32 % 16 == 0 && args->stride % 4 == 0 &&
           fours_aligned<WEFT_Y_DTYPE>(args->y, args->y_stride) &&
           fours_aligned<WEFT_Y_DTYPE>(args->residual, args->residual_stride);
}

DEVICE void finish(const struct weft__linear_finish_args *args, int64_t n)
{
    const int32_t col = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (col + 4 > args->rows || !in_fours(args)) {
        for (int32_t i = col; i < min(args->rows, col + 4); i++)
            set_element<WEFT_Y_DTYPE>(args->y, n * args->y_stride + i, finished(args, n, i));
        return;
    }
    const int64_t at = n * args->stride + col;
    const float scale = args->scales ? args->scales[n] : 1.0f;
    const float4 a = four_sums(args, args->first, args->first_slices, at);
    const float4 b =
        WEFT_GATE ? four_sums(args, args->second, args->second_slices, at) : four(nullptr, at);
    const float4 c = four(args->first_bias, col), d = four(args->second_bias, col);
    float4 more = make_float4(0, 0, 0, 0);
    if (args->residual)
        more = four_elements<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + col);
    const float4 out = make_float4(gated<WEFT_GATE>(a.x * scale + c.x, b.x * scale + d.x) + more.x,
                                   gated<WEFT_GATE>(a.y * scale + c.y, b.y * scale + d.y) + more.y,
                                   gated<WEFT_GATE>(a.z * scale + c.z, b.z * scale + d.z) + more.z,
                                   gated<WEFT_GATE>(a.w * scale + c.w, b.w * scale + d.w) + more.w);
    set_four_elements<WEFT_Y_DTYPE>(args->y, n * args->y_stride + col, out);
}
#endif

// Grid (columns over the threads of a block, rows)
extern "C" __global__ void
weft_linear_finish(const __grid_constant__ struct weft__linear_finish_args args)
{
    let_next_start();
    wait_for_previous();
    finish(&args, blockIdx.y);
}
