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

// A lane's COUNT sums of D fragments (mma.cuh) of 16 rows of W by eights of rows of X. What they need is asked for
// for several eights at once, before the first of their stores.
template <int COUNT>
DEVICE void results_store(const struct weft__linear_gemm_args *args, int32_t row0, int32_t n0,
                          const float *d)
{
    enum { EIGHTS = COUNT / 4, AT_ONCE = EIGHTS < 4 ? EIGHTS : 4 };
    const int32_t lane = (int32_t)threadIdx.x % WARP, row = row0 + lane / 4;
    const int32_t first = n0 + lane % 4 * 2;
    float bias[2] = {0, 0};
    for (int32_t h = 0; h < 2 && args->bias; h++)
        bias[h] = row + 8 * h < args->rows ? args->bias[row + 8 * h] : 0.0f;
#pragma unroll
    for (int32_t e = 0; e < EIGHTS; e += AT_ONCE) {
        float scale[AT_ONCE * 2], residual[AT_ONCE * 4] = {0};
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE * 2; k++) {
            const int32_t n = first + (e + k / 2) * 8 + k % 2;
            scale[k] = n < args->batch ? args->scales[n] : 0.0f;
        }
        if (args->residual)
#pragma unroll
            for (int32_t i = 0; i < AT_ONCE * 4; i++) {
                const int32_t n = first + (e + i / 4) * 8 + i % 2, at = row + i % 4 / 2 * 8;
                if (n < args->batch && at < args->rows)
                    residual[i] =
                        element<WEFT_Y_DTYPE>(args->residual, n * args->residual_stride + at);
            }
#pragma unroll
        for (int32_t i = 0; i < AT_ONCE * 4; i++) {
            const int32_t n = first + (e + i / 4) * 8 + i % 2, at = row + i % 4 / 2 * 8;
            const float out = args->alpha * (scale[i / 4 * 2 + i % 2] * d[e * 4 + i]) +
                              bias[i % 4 / 2] + residual[i];
            if (n < args->batch && at < args->rows)
                set_element<WEFT_Y_DTYPE>(args->y, n * args->y_stride + at, out);
        }
    }
}

#endif
