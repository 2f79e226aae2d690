// SPDX-License-Identifier: MIT
// Softmax in place, one block per row. The shift is any number near the largest element: it cancels, so
// rounding it costs nothing; the difference is formed by one fused operation.
//
// Constants: X_DTYPE
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/softmax/softmax_device.h"

extern "C" __global__ void weft_softmax(const struct weft__softmax_device_args args)
{
    const int64_t x0 = blockIdx.x * args.x_stride;
    const float least = bits_float(0xff800000u);
    float largest = least;
    double sum = 0;
    wait_for_previous();
    let_next_start();
    for (int64_t i = threadIdx.x; i < args.dim; i += blockDim.x)
        largest = fmaxf(largest, element<X_DTYPE>(args.x, x0 + i) * args.scale);
    largest = block_max(largest);
    if (largest == least)
        largest = 0; // every exponential is 0, and so is every result
    for (int64_t i = threadIdx.x; i < args.dim; i += blockDim.x)
        sum += expf(fmaf(element<X_DTYPE>(args.x, x0 + i), args.scale, -largest));
    sum = block_sum(sum);
    float whole = (float)sum;
    for (int64_t i = threadIdx.x; i < args.dim; i += blockDim.x) {
        float e = expf(fmaf(element<X_DTYPE>(args.x, x0 + i), args.scale, -largest));
        set_element<X_DTYPE>(args.x, x0 + i, whole == 0 ? 0 : e / whole);
    }
}
