// SPDX-License-Identifier: MIT
// Activations on their way into linear layers, where no kernel before left them so: to int8 per 32
// (linear_device.h), a warp a group, or to f32. Function constants: WEFT_X_DTYPE.
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

// With `weight`, x * (weight + weight_plus) is rounded; the sum of squares of x goes along, so that the
// reader of a norm has only to multiply by 1/rms. Grid (groups of 32 over the warps of a block, rows).
extern "C" __global__ void
weft_linear_round(const __grid_constant__ struct weft__linear_round_args args)
{
    int32_t lane = (int32_t)threadIdx.x % WARP, n = (int32_t)blockIdx.y;
    int32_t unit = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x) / WARP, col = unit * 32 + lane;
    int32_t padded = (args.cols + 63) / 64 * 64;
    let_next_start();
    wait_for_previous();
    if (unit * 32 >= padded)
        return;
    float x = col < args.cols ? element<WEFT_X_DTYPE>(args.x, n * args.x_stride + col) : 0.0f;
    float weight = args.weight && col < args.cols ? args.weight[col] + args.weight_plus : 1.0f;
    uint8_t *row = (uint8_t *)args.rounded + n * weft__linear_rounded_stride(args.cols);
    round_group(row, args.cols, unit, lane, x * weight);
    float square = warp_sum(x * x, 32);
    if (lane == 0)
        round_squares(row, args.cols)[unit] = square;
}

// A row of X as f32, with the norm that a kernel of products does not do itself, and zeros up to the next row. A
// block a row.
extern "C" __global__ void
weft_linear_ready(const __grid_constant__ struct weft__linear_ready_args args)
{
    const int64_t x0 = blockIdx.x * args.x_stride;
    float *y = args.y + blockIdx.x * args.y_stride;
    float mean = 0, scale = 1;
    wait_for_previous();
    if (args.norm == 2) {
        float sum = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < args.cols; i += (int32_t)blockDim.x)
            sum += element<WEFT_X_DTYPE>(args.x, x0 + i);
        mean = block_sum(sum) / (float)args.cols;
    }
    if (args.norm) {
        float square = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < args.cols; i += (int32_t)blockDim.x) {
            float x = element<WEFT_X_DTYPE>(args.x, x0 + i) - mean;
            square += x * x;
        }
        scale = 1.0f / sqrtf(block_sum(square) / (float)args.cols + args.eps);
    }
    let_next_start();
    for (int32_t i = args.cols + (int32_t)threadIdx.x; i < args.y_stride; i += (int32_t)blockDim.x)
        y[i] = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < args.cols; i += (int32_t)blockDim.x) {
        float weight = args.weight ? args.weight[i] + args.weight_plus : 1.0f;
        y[i] = (element<WEFT_X_DTYPE>(args.x, x0 + i) - mean) * scale * weight +
               (args.bias ? args.bias[i] : 0.0f);
    }
}
