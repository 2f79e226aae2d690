// SPDX-License-Identifier: MIT
// Softmax in place, one block per row. The largest element is taken off before the scale: a product of large
// numbers has no digits left for the difference.
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
    const float sign = args.scale < 0 ? -1 : 1;
    float largest = least;
    double sum = 0;
    wait_for_previous();
    let_next_start();
    for (int64_t i = threadIdx.x; i < args.dim; i += blockDim.x)
        largest = fmaxf(largest, sign * element<X_DTYPE>(args.x, x0 + i));
    largest = block_max(largest);
    if (largest == least)
        largest = 0; // every exponential is 0, and so is every result
    largest *= sign;
    for (int64_t i = threadIdx.x; i < args.dim; i += blockDim.x)
        sum += expf((element<X_DTYPE>(args.x, x0 + i) - largest) * args.scale);
    sum = block_sum(sum);
    float whole = (float)sum;
    for (int64_t i = threadIdx.x; i < args.dim; i += blockDim.x) {
        float e = expf((element<X_DTYPE>(args.x, x0 + i) - largest) * args.scale);
        set_element<X_DTYPE>(args.x, x0 + i, whole == 0 ? 0 : e / whole);
    }
}
