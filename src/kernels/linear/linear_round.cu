// SPDX-License-Identifier: MIT
// Activations to int8 per 32 (linear_device.h), where no kernel before left them so: a warp per group.
// With `weight`, x * (weight + weight_plus) is rounded and the sum of squares of x goes along, so that the
// reader has only to multiply by 1/rms. Function constants: WEFT_X_DTYPE (1 f32, 2 f16, 3 bf16).
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

// grid (groups of 32 over the warps of a block, rows)
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
