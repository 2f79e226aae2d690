// SPDX-License-Identifier: MIT
// What adapters of a part add to its products: scale * B_e (A_e x) for every choice, e its expert, in f32. A block does a
// choice, one adapter after the other: a warp a row of A, then a thread a row of B.
//
// No constants: formats of adapters come with the run.
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/warp.cuh"
#include "src/kernels/experts/experts_device.h"

enum { WARPS = WEFT__EXPERTS_ADAPT_THREADS / WARP };

DEVICE float plain_element(int32_t dtype, const void *from, int64_t i)
{
    return dtype == DTYPE_F32   ? element<DTYPE_F32>(from, i)
           : dtype == DTYPE_F16 ? element<DTYPE_F16>(from, i)
                                : element<DTYPE_BF16>(from, i);
}

// Whose a place is.
DEVICE int32_t expert_of(const struct weft__linear_experts *to, int32_t place)
{
    int32_t first = 0, last = to->experts - 1;
    while (first < last) {
        const int32_t middle = (first + last + 1) / 2;
        if (to->starts[middle] <= place)
            first = middle;
        else
            last = middle - 1;
    }
    return first;
}

// The product with a matrix of a few rows, times scale.
DEVICE void narrow(const struct weft__experts_adapter *one, int32_t expert, const float *x,
                   int32_t cols, float *between)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    for (int32_t r = warp; r < one->rank; r += WARPS) {
        const int64_t row = ((int64_t)expert * one->rank + r) * cols;
        float sum = 0;
        for (int32_t c = lane; c < cols; c += WARP)
            sum += plain_element(one->a_dtype, one->a, row + c) * x[c];
        sum = warp_sum(sum, WARP);
        if (lane == 0)
            between[r] = one->scale * sum;
    }
}

// Grid (choices).
extern "C" __global__ void __launch_bounds__(WEFT__EXPERTS_ADAPT_THREADS)
    weft_experts_adapt(const __grid_constant__ struct weft__experts_adapt_args args)
{
    __shared__ float between[WEFT__EXPERTS_ADAPT_RANK];
    const int32_t place = (int32_t)blockIdx.x, most = args.to.choices - 1;
    wait_for_previous();
    let_next_start();
    const int32_t choice = min(max(args.to.order[place], 0), most); // whatever it says
    const int32_t expert = expert_of(&args.to, place);
    const float *x = args.x + (args.to.gather ? choice / args.to.top_k : place) * args.x_stride;
    float *y = args.y + (int64_t)(args.to.gather ? place : choice) * args.rows;
    for (int32_t i = 0; i < args.count; i++) {
        const struct weft__experts_adapter *one = &args.adapters[i];
        narrow(one, expert, x, args.cols, between);
        __syncthreads();
        for (int32_t row = (int32_t)threadIdx.x; row < args.rows;
             row += WEFT__EXPERTS_ADAPT_THREADS) {
            const int64_t at = ((int64_t)expert * args.rows + row) * one->rank;
            float sum = 0;
            for (int32_t r = 0; r < one->rank; r++)
                sum += plain_element(one->b_dtype, one->b, at + r) * between[r];
            y[row] = i ? y[row] + sum : sum;
        }
        __syncthreads();
    }
}
