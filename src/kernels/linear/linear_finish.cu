// SPDX-License-Identifier: MIT
// What follows products that other launches left as f32: factors of rows of X, bias, gate, residual, element type, rounding.
// A warp takes 32 columns of a row. Function constants: WEFT_GATE, WEFT_ROUND, WEFT_Y_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

// Grid (32 columns over the warps of a block, rows)
extern "C" __global__ void
weft_linear_finish(const __grid_constant__ struct weft__linear_finish_args args)
{
    int32_t lane = (int32_t)threadIdx.x % WARP;
    int32_t row = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), group = row - lane;
    const int64_t n = blockIdx.y, at = n * args.stride + row;
    let_next_start();
    wait_for_previous();
    if (group >= args.rows)
        return;
    float out = 0, weight = 1;
    if (row < args.rows) {
        const float scale = args.scales ? args.scales[n] : 1.0f;
        const float first =
            args.first[at] * scale + (args.first_bias ? args.first_bias[row] : 0.0f);
        const float second = WEFT_GATE ? args.second[at] * scale : 0.0f;
        out = gated<WEFT_GATE>(first, second + (args.second_bias ? args.second_bias[row] : 0.0f));
        if (args.residual)
            out += element<WEFT_Y_DTYPE>(args.residual, n * args.residual_stride + row);
        if (args.y)
            set_element<WEFT_Y_DTYPE>(args.y, n * args.y_stride + row, out);
        if (args.next_weight)
            weight = args.next_weight[row] + args.next_weight_plus;
    }
#if WEFT_ROUND
    if (args.y)
        out = as_stored<WEFT_Y_DTYPE>(out);
    round_results((uint8_t *)args.rounded + n * weft__linear_rounded_stride(args.rows), args.rows,
                  row, lane, out, weight);
#else
    (void)weight;
#endif
}
