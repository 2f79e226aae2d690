// SPDX-License-Identifier: MIT
// Where sums of products for many rows of X go. WEFT_Y_DTYPE: 1 f32, 2 f16, 3 bf16.
#ifndef WEFT_KERNELS_LINEAR_GEMM_RESULT_CUH
#define WEFT_KERNELS_LINEAR_GEMM_RESULT_CUH

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/linear/linear_gemm_device.h"

// Result (row of W, row of X) of the sum.
DEVICE void result_store(const struct weft__linear_gemm_args *args, int32_t row, int32_t n,
                         float sum)
{
    if (row >= args->rows || n >= args->batch)
        return;
    float out = args->alpha * (args->scales[n] * sum);
    if (args->bias)
        out += args->bias[row];
    if (args->residual)
        out += element<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + row);
    set_element<WEFT_Y_DTYPE>(args->y, n * args->y_stride + row, out);
}

// A lane's COUNT sums of D fragments (mma.cuh) of 16 rows of W by eights of rows of X.
template <int COUNT>
DEVICE void results_store(const struct weft__linear_gemm_args *args, int32_t row0, int32_t n0,
                          const float *d)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
#pragma unroll
    for (int32_t i = 0; i < COUNT; i++)
        result_store(args, row0 + lane / 4 + i % 4 / 2 * 8, n0 + i / 4 * 8 + lane % 4 * 2 + i % 2,
                     d[i]);
}

#endif
