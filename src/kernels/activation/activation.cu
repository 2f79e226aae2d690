// SPDX-License-Identifier: MIT
// Activation functions, plain and gated: a block does some columns of one row.
//
// Constants: KIND (weft_activation_kind), X_DTYPE (of x and up), Y_DTYPE
#include "src/kernels/activation/activation_device.h"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"

enum { SILU, GELU, GELU_TANH, SOFTCAP, NONE };

DEVICE float activation(float x, float cap)
{
    if (KIND == NONE)
        return x;
    if (KIND == SOFTCAP)
        return cap * tanhf(x / cap);
    if (x == bits_float(0xff800000u)) // the limit at -infinity
        return 0;
    if (KIND == SILU)
        return x / (1 + expf(-x));
    if (KIND == GELU)
        return x / 2 * erfcf(-x * 0.70710678118654752f);
    // 1 + tanh(z) = 2 / (1 + exp(-2 z)) keeps its precision where tanh comes close to -1.
    float z = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return x / (1 + expf(-2 * z));
}

extern "C" __global__ void weft_activation(const struct weft__activation_device_args args)
{
    int64_t row = blockIdx.y, i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    wait_for_previous();
    let_next_start();
    if (i >= args.dim)
        return;
    float y = activation(element<X_DTYPE>(args.x, row * args.x_stride + i), args.cap);
    if (args.up)
        y *= element<X_DTYPE>(args.up, row * args.up_stride + i);
    set_element<Y_DTYPE>(args.y, row * args.y_stride + i, y);
}
