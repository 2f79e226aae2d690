// SPDX-License-Identifier: MIT
// Sums and maxima over the threads of a block, always in the same order. Every thread of a block of up to
// 1024 calls, a whole number of warps; every thread receives the result.
#ifndef WEFT_KERNELS_CUDA_BLOCK_CUH
#define WEFT_KERNELS_CUDA_BLOCK_CUH

#include "src/kernels/cuda/types.cuh"

// Combines in a tree over the lanes of each warp, then over the warps.
template <class T, class Combine> DEVICE T block_combine(T value, T neutral, Combine combine)
{
    __shared__ T parts[32];
    int32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    for (int32_t step = WARP / 2; step; step /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads(); // an earlier result has been read
    if (lane == 0)
        parts[warp] = value;
    __syncthreads();
    value = lane < warps ? parts[lane] : neutral;
    for (int32_t step = WARP / 2; step; step /= 2)
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

template <class T> DEVICE T block_sum(T value)
{
    return block_combine(value, (T)0, [](T a, T b) { return a + b; });
}

DEVICE float block_max(float value)
{
    return block_combine(value, bits_float(0xff800000u),
                         [](float a, float b) { return fmaxf(a, b); });
}

#endif
