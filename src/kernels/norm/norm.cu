// SPDX-License-Identifier: MIT
// RMSNorm and LayerNorm, one block per row. Sums are f64, as on the CPU: the row's factor is then exact to
// f32, whatever the range of its elements.
//
// Constants: CENTRED (LayerNorm), X_DTYPE, Y_DTYPE, W_DTYPE (weight and bias), DIM (0: run time)
#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/norm/norm_device.h"

extern "C" __global__ void weft_norm(const struct weft__norm_device_args args)
{
    const int64_t dim = DIM ? DIM : args.dim;
    const int64_t x0 = blockIdx.x * args.x_stride, y0 = blockIdx.x * args.y_stride;
    double sum = 0, square = 0, mean = 0;
    wait_for_previous();
    if (CENTRED) {
        for (int64_t i = threadIdx.x; i < dim; i += blockDim.x)
            sum += element<X_DTYPE>(args.x, x0 + i);
        mean = block_sum(sum) / (double)dim;
    }
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
        double x = element<X_DTYPE>(args.x, x0 + i) - mean;
        square += x * x;
    }
    double scale = 1 / sqrt(block_sum(square) / (double)dim + args.eps);
    let_next_start();
    for (int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
        double x = (element<X_DTYPE>(args.x, x0 + i) - mean) * scale;
        double weight =
            args.weight ? (double)element<W_DTYPE>(args.weight, i) + args.weight_offset : 1;
        double bias = CENTRED && args.bias ? element<W_DTYPE>(args.bias, i) : 0;
        double residual =
            args.residual ? element<Y_DTYPE>(args.residual, blockIdx.x * args.residual_stride + i)
                          : 0;
        set_element<Y_DTYPE>(args.y, y0 + i, (float)(x * weight + bias + residual));
    }
}
