// SPDX-License-Identifier: MIT
// y = residual + alpha * sum of a token's results, weighted, in the order of its choices; rounded for the next layer, too
// (columns are whole warps then). Grid (columns over the threads of a block, tokens).
//
// Constants: TOP_K, Y_DTYPE, AS_THEY_ARE (results are not weighted: what made them was)
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/warp.cuh"
#include "src/kernels/experts/experts_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

// What the weights of all chosen experts weigh, added by one warp.
DEVICE void count_bytes(const struct weft__experts_sum_args *args)
{
    int32_t chosen = 0;
    for (int32_t e = (int32_t)threadIdx.x; e < args->experts; e += WARP)
        chosen += args->starts[e + 1] > args->starts[e];
    chosen = warp_sum_int(chosen, WARP);
    if (threadIdx.x == 0)
        *args->bytes_read += (uint64_t)chosen * args->expert_bytes;
}

extern "C" __global__ void weft_experts_sum(const struct weft__experts_sum_args args)
{
    const int32_t col = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    const int64_t token = blockIdx.y, choice = token * TOP_K;
    wait_for_previous();
    let_next_start();
    if (args.bytes_read && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < WARP)
        count_bytes(&args);
    if (col >= args.cols)
        return;
    float total = 0;
    for (int32_t k = 0; k < TOP_K; k++)
        total += (AS_THEY_ARE ? 1.0f : args.weights[choice + k]) *
                 args.results[(choice + k) * args.cols + col];
    total *= args.alpha;
    if (args.residual)
        total += element<Y_DTYPE>(args.residual, token * args.residual_stride + col);
    set_element<Y_DTYPE>(args.y, token * args.y_stride + col, total);
    if (!args.rounded)
        return;
    const float weight = args.next_weight ? args.next_weight[col] + args.next_weight_plus : 1.0f;
    round_results((uint8_t *)args.rounded + token * weft__linear_rounded_stride(args.cols),
                  args.cols, col, col % WARP, as_stored<Y_DTYPE>(total), weight);
}
