// SPDX-License-Identifier: MIT
// Rotary position embedding in place: a block turns one token, a thread a pair of every head.
//
// Constants: STYLE (weft_rope_style), X_DTYPE
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/rope/rope.cuh"
#include "src/kernels/rope/rope_device.h"

extern "C" __global__ void weft_rope(const struct weft__rope_device_args args)
{
    // x: pairs; y: heads in parallel, as many as the block has rows; grid x: tokens, y: groups of heads
    int32_t head = blockIdx.y * blockDim.y + threadIdx.y;
    int64_t x0 = blockIdx.x * args.token_stride + (int64_t)head * args.head_dim;
    wait_for_previous();
    let_next_start();
    int32_t position = args.positions[blockIdx.x];
    for (int32_t i = threadIdx.x; i < args.rotary_dim / 2; i += blockDim.x) {
        float2 angle = rope_angle(position, args.turns[i], args.factor);
        int2 at = rope_places<STYLE>(i, args.rotary_dim);
        float2 y = rope_turn(element<X_DTYPE>(args.x, x0 + at.x),
                             element<X_DTYPE>(args.x, x0 + at.y), angle);
        set_element<X_DTYPE>(args.x, x0 + at.x, y.x);
        set_element<X_DTYPE>(args.x, x0 + at.y, y.y);
    }
}
