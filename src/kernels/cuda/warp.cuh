// SPDX-License-Identifier: MIT
// Sums and maxima over the lanes of a warp, always in the same order.
#ifndef WEFT_KERNELS_CUDA_WARP_CUH
#define WEFT_KERNELS_CUDA_WARP_CUH

#include "src/kernels/cuda/types.cuh"

// Over the lanes whose numbers differ in the bits of `lanes` - 1, e.g. 32 for all, 4 for neighbours.
DEVICE float warp_sum(float value, int32_t lanes)
{
    for (int32_t step = lanes / 2; step; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

DEVICE float warp_max(float value, int32_t lanes)
{
    for (int32_t step = lanes / 2; step; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

DEVICE uint32_t warp_max_bits(uint32_t value, int32_t lanes)
{
    for (int32_t step = lanes / 2; step; step /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, value, step);
        value = other > value ? other : value;
    }
    return value;
}

DEVICE int32_t warp_sum_int(int32_t value, int32_t lanes)
{
    for (int32_t step = lanes / 2; step; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

#endif
