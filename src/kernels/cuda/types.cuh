// SPDX-License-Identifier: MIT
// What all device text starts from: widths, bits of floats, division of a warp, and the instructions of the machine.
#ifndef WEFT_KERNELS_CUDA_TYPES_CUH
#define WEFT_KERNELS_CUDA_TYPES_CUH

#include <stdint.h>

#define DEVICE static __device__ __forceinline__

enum { WARP = 32 };

DEVICE float bits_float(uint32_t bits)
{
    return __uint_as_float(bits);
}

DEVICE uint32_t float_bits(float value)
{
    return __float_as_uint(value);
}

DEVICE float2 bf16x2_float2(uint32_t pair)
{
    return make_float2(bits_float(pair << 16), bits_float(pair & 0xffff0000u));
}

#include "src/kernels/cuda/instructions.cuh"

#endif
