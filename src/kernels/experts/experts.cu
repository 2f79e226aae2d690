// SPDX-License-Identifier: MIT
// One matrix of all experts times the rows of the choices that went to them, W as a file has it: a warp a row of W
// and a few places of one expert (linear_rows.cuh), so that the weights of an expert that nobody chose are not read.
//
// Function constants besides those of linear_rows.cuh: GATHER (rows of X are tokens', and of Y places; else of X places,
// and of Y choices), FUNCTION (a weft_linear_gate, 0: none), CLAMPS.
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/experts/experts_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_rows.cuh"

enum { COLUMNS = WEFT__EXPERTS_COLUMNS, WARPS = 4 };

// Places [first, first + count) of one expert.
struct share {
    int32_t expert, first, count;
};

// Share number `wanted`, when the places of every expert are shared out by COLUMNS; a count of 0 if there are fewer.
DEVICE struct share find_share(const struct weft__experts_product_args *args, int32_t wanted)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    struct share found = {0, 0, 0};
    for (int32_t e0 = 0, before = 0; e0 < args->experts; e0 += WARP) {
        const int32_t e = e0 + lane;
        const int32_t start = e < args->experts ? args->starts[e] : 0;
        const int32_t places = e < args->experts ? args->starts[e + 1] - start : 0;
        const int32_t shares = (places + COLUMNS - 1) / COLUMNS;
        int32_t end = shares;
        for (int32_t step = 1; step < WARP; step *= 2) {
            const int32_t other = __shfl_up_sync(0xffffffffu, end, step);
            end += lane >= step ? other : 0;
        }
        const int32_t mine = wanted - (before + end - shares);
        const uint32_t whose = __ballot_sync(0xffffffffu, mine >= 0 && mine < shares);
        if (whose) {
            const int32_t from = __ffs((int32_t)whose) - 1;
            const int32_t first = start + mine * COLUMNS;
            found.expert = e0 + from;
            found.first = __shfl_sync(0xffffffffu, first, from);
            found.count =
                __shfl_sync(0xffffffffu, min(start + places - first, (int32_t)COLUMNS), from);
            return found;
        }
        before += __shfl_sync(0xffffffffu, end, WARP - 1);
    }
    return found;
}

// function(gate) * up, or that of gpt-oss; comparisons keep NaN.
DEVICE float joined(const struct weft__experts_product_args *args, float gate, float up)
{
#if CLAMPS
    const float limit = args->clamp_limit;
    const float g = gate > limit ? limit : gate;
    const float u = up > limit ? limit : up < -limit ? -limit : up;
    const float falls = expf(-args->clamp_slope * g);
    return (falls == bits_float(0x7f800000u) ? 0.0f : g / (1.0f + falls)) * (u + 1.0f);
#else
    (void)args;
    return gated<FUNCTION>(gate, up);
#endif
}

// Grid (shares, rows of W over the warps of a block).
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    weft_experts(const __grid_constant__ struct weft__experts_product_args args)
{
    __shared__ float decoded[WARPS][DECODED];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    const int32_t row = (int32_t)blockIdx.y * WARPS + warp;
    if (row >= args.rows)
        return;
    wait_for_previous();
    let_next_start();
    const struct share share = find_share(&args, (int32_t)blockIdx.x);
    if (share.count <= 0)
        return;
    const int32_t choices = args.tokens * args.top_k;
    const float *x[COLUMNS];
    int32_t to[COLUMNS];
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++) {
        const int32_t place = min(share.first + n, choices - 1);
        const int32_t choice = min(max(args.order[place], 0), choices - 1); // whatever it says
        x[n] = args.x + (GATHER ? choice / args.top_k : place) * args.x_stride;
        to[n] = GATHER ? place : choice;
    }
    struct row_planes planes = {args.scales, args.biases};
    float sum[COLUMNS];
#if SCALE_DTYPE
    planes.first =
        share.expert * args.expert_scale_stride + row / args.scale_rows * args.scale_stride;
    planes.scale_cols = args.scale_cols;
#endif
    row_products<COLUMNS>((const uint8_t *)args.weight + share.expert * args.expert_stride_bytes +
                              row * args.weight_stride_bytes,
                          &planes, args.cols, share.count,
                          [&](int32_t n, int32_t col) { return x[n][col]; }, decoded[warp], sum);
    const float bias = args.bias ? args.bias[(int64_t)share.expert * args.rows + row] : 0.0f;
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++) {
        const int64_t at = (int64_t)to[n] * args.rows + row;
        if (lane == 0 && n < share.count)
            args.y[at] = FUNCTION ? joined(&args, args.gate[at], sum[n] + bias) : sum[n] + bias;
    }
}
