// SPDX-License-Identifier: MIT
// What follows products that other launches left as f32: gate, residual, element type, rounding. A warp takes 32
// columns of a row. Function constants: WEFT_GATE, WEFT_ROUND, WEFT_Y_DTYPE.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

// The products of all slices of the columns, in their order.
DEVICE float whole_sum(const struct weft__linear_finish_args *args, const float *of, int64_t at)
{
    const int64_t slice = (int64_t)args->batch * args->rows;
    float sum = of[at];
    for (int32_t i = 1; i < args->slices; i++)
        sum += of[i * slice + at];
    return sum;
}

// Grid (32 columns over the warps of a block, rows)
extern "C" __global__ void
weft_linear_finish(const __grid_constant__ struct weft__linear_finish_args args)
{
    int32_t lane = (int32_t)threadIdx.x % WARP;
    int32_t row = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), group = row - lane;
    const int64_t n = blockIdx.y, at = n * args.rows + row;
    let_next_start();
    wait_for_previous();
    if (group >= args.rows)
        return;
    float out = 0, weight = 1;
    if (row < args.rows) {
        out = gated<WEFT_GATE>(whole_sum(&args, args.first, at),
                                WEFT_GATE ? whole_sum(&args, args.second, at) : 0.0f);
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
