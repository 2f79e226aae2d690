// SPDX-License-Identifier: MIT
// What follows products that other launches left as f32: sums of slices of the columns, factors of rows of X, bias, gate,
// residual, element type, rounding.
// A thread takes four columns of a row. Function constants: WEFT_GATE, WEFT_ROUND, WEFT_Y_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

DEVICE const struct weft__linear_finish_part *part_of(const struct weft__linear_finish_args *args)
{
    return &args->part[WEFT_GATE ? 0 : blockIdx.z];
}

// The product at a column of row n: of all slices in the order of the columns, with factor and bias.
DEVICE float product(const struct weft__linear_finish_args *args,
                     const struct weft__linear_finish_part *part, int64_t n, int32_t col)
{
    const float *of = part->sums + n * part->stride + col;
    float sum = *of;
#pragma unroll 4
    for (int32_t i = 1; i < part->slices; i++)
        sum += of[i * args->batch * part->stride];
    return sum * (args->scales ? args->scales[n] : 1.0f) + (part->bias ? part->bias[col] : 0.0f);
}

DEVICE float4 four(const float *from, int64_t at)
{
    return from ? *(const float4 *)(from + at) : make_float4(0, 0, 0, 0);
}

// Four products.
DEVICE float4 products(const struct weft__linear_finish_args *args,
                       const struct weft__linear_finish_part *part, int64_t n, int32_t col)
{
    const int64_t at = n * part->stride + col;
    const float scale = args->scales ? args->scales[n] : 1.0f;
    const float4 bias = four(part->bias, col);
    float4 sum = four(part->sums, at);
#pragma unroll 8
    for (int32_t i = 1; i < part->slices; i++) {
        const float4 more = four(part->sums, i * args->batch * part->stride + at);
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    return make_float4(sum.x * scale + bias.x, sum.y * scale + bias.y, sum.z * scale + bias.z,
                       sum.w * scale + bias.w);
}

// Are four columns one piece of every array?
DEVICE bool in_fours(const struct weft__linear_finish_args *args)
{
    const struct weft__linear_finish_part *part = part_of(args), *other = part + (WEFT_GATE != 0);
    const uint64_t f32 =
        (uint64_t)part->sums | (uint64_t)other->sums | (uint64_t)part->bias | (uint64_t)other->bias;
    return f32 % 16 == 0 && (part->stride | other->stride) % 4 == 0 && part->rows % 4 == 0 &&
           fours_aligned<WEFT_Y_DTYPE>(part->y, part->y_stride) &&
           fours_aligned<WEFT_Y_DTYPE>(args->residual, args->residual_stride);
}

// The results of four columns of row n, which go to Y, too; 0 where there are no columns.
DEVICE float4 results(const struct weft__linear_finish_args *args, int64_t n, int32_t col)
{
    const struct weft__linear_finish_part *part = part_of(args);
    if (col < part->rows && in_fours(args)) {
        const float4 a = products(args, part, n, col);
        const float4 b = WEFT_GATE ? products(args, part + 1, n, col) : make_float4(0, 0, 0, 0);
        float4 more = make_float4(0, 0, 0, 0);
        if (args->residual)
            more = four_elements<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + col);
        const float4 out =
            make_float4(gated<WEFT_GATE>(a.x, b.x) + more.x, gated<WEFT_GATE>(a.y, b.y) + more.y,
                        gated<WEFT_GATE>(a.z, b.z) + more.z, gated<WEFT_GATE>(a.w, b.w) + more.w);
        if (part->y)
            set_four_elements<WEFT_Y_DTYPE>(part->y, n * part->y_stride + col, out);
        return out;
    }
    float out[4] = {0, 0, 0, 0};
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        if (col + i >= part->rows)
            break;
        out[i] = gated<WEFT_GATE>(product(args, part, n, col + i),
                                  WEFT_GATE ? product(args, part + 1, n, col + i) : 0.0f);
        if (args->residual)
            out[i] += element<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + col + i);
        if (part->y)
            set_element<WEFT_Y_DTYPE>(part->y, n * part->y_stride + col + i, out[i]);
    }
    return make_float4(out[0], out[1], out[2], out[3]);
}

#if WEFT_ROUND
// What the next norm multiplies four columns by. Asked for before the launch before has ended: weights come from memory, where all
// else has just been written.
DEVICE float4 next_weights(const struct weft__linear_finish_args *args, int32_t col)
{
    float by[4] = {1, 1, 1, 1};
#pragma unroll
    for (int32_t i = 0; i < 4; i++)
        if (args->next_weight && col < part_of(args)->rows)
            by[i] = args->next_weight[col + i] + args->next_weight_plus;
    return make_float4(by[0], by[1], by[2], by[3]);
}

// Leaves them rounded, with their sums of squares: all lanes of a warp.
DEVICE void round_out(const struct weft__linear_finish_args *args, int64_t n, int32_t col,
                      float4 result, float4 weight)
{
    const struct weft__linear_finish_part *part = part_of(args);
    uint8_t *row = (uint8_t *)args->rounded + n * weft__linear_rounded_stride(part->rows);
    const int32_t width = (part->rows + 63) / 64 * 64; // beyond the last group is one of zeros
    float x[4] = {result.x, result.y, result.z, result.w}, square = 0;
    const float by[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        x[i] = part->y ? as_stored<WEFT_Y_DTYPE>(x[i]) : x[i];
        square += x[i] * x[i];
        x[i] *= by[i];
    }
    round_fours(row, row + width, col, width, x);
    square = warp_sum(square, 8);
    if (col % 32 == 0 && col < part->rows)
        round_squares(row, part->rows)[col / 32] = square;
}
#endif

// Grid (columns over the threads of a block, rows, parts)
extern "C" __global__ void
weft_linear_finish(const __grid_constant__ struct weft__linear_finish_args args)
{
    const int32_t col = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x) * 4;
    let_next_start();
#if WEFT_ROUND
    const float4 weight = next_weights(&args, col);
    wait_for_previous();
    round_out(&args, blockIdx.y, col, results(&args, blockIdx.y, col), weight);
#else
    wait_for_previous();
    results(&args, blockIdx.y, col);
#endif
}
