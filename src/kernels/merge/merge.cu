// SPDX-License-Identifier: MIT
// Merging attention states: a warp has a row, a head of a token, a lane every 32nd of its elements. Out may be one of
// the states: an element is read of all of them, by the lane that writes it.
//
// Constants: DIM, X_DTYPE, Y_DTYPE
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/merge/merge_device.h"

// What a state counts against the largest; one that saw nothing has no part, whatever it holds.
DEVICE float weight_of(float lse, float largest)
{
    return lse == bits_float(0xff800000u) ? 0.0f : lse == largest ? 1.0f : expf(lse - largest);
}

extern "C" __global__ void weft_merge(const __grid_constant__ struct weft__merge_device_args args)
{
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    let_next_start();
    wait_for_previous();
    if (row >= args.rows)
        return;
    const int64_t token = row / args.num_heads, head = row % args.num_heads;
    const int64_t from = token * args.x_token_stride + head * args.x_head_stride;
    const int64_t to = token * args.out_token_stride + head * args.out_head_stride;
    float largest = bits_float(0xff800000u), sum = 0;
    for (int32_t s = 0; s < args.num_states; s++)
        largest = fmaxf(largest, args.lse[row + s * args.lse_state_stride]);
    for (int32_t s = 0; s < args.num_states; s++)
        sum += weight_of(args.lse[row + s * args.lse_state_stride], largest);
    for (int32_t d = lane; d < DIM; d += WARP) {
        float y = 0;
        for (int32_t s = 0; s < args.num_states; s++) {
            const float weight = weight_of(args.lse[row + s * args.lse_state_stride], largest);
            if (weight > 0)
                y = fmaf(weight, element<X_DTYPE>(args.x, from + s * args.x_state_stride + d), y);
        }
        set_element<Y_DTYPE>(args.out, to + d, sum == 0 ? 0.0f : y / sum);
    }
    __syncwarp(); // out_lse may be the lse of a state
    if (args.out_lse && lane == 0)
        args.out_lse[row] = sum == 0 ? bits_float(0xff800000u) : largest + logf(sum);
}
