// SPDX-License-Identifier: MIT
// Elements of f32, f16 and bf16 buffers as floats; DTYPE is a value of weft_dtype.
#ifndef WEFT_KERNELS_CUDA_ELEMENTS_CUH
#define WEFT_KERNELS_CUDA_ELEMENTS_CUH

#include "src/kernels/cuda/types.cuh"

enum { DTYPE_F32 = 1, DTYPE_F16 = 2, DTYPE_BF16 = 3 };

template <int DTYPE> DEVICE float element(const void *from, int64_t i)
{
    if constexpr (DTYPE == DTYPE_F32)
        return ((const float *)from)[i];
    else if constexpr (DTYPE == DTYPE_F16)
        return f16_float(((const uint16_t *)from)[i]);
    else
        return bits_float((uint32_t)((const uint16_t *)from)[i] << 16);
}

// Rounded to nearest even.
template <int DTYPE> DEVICE void set_element(void *to, int64_t i, float value)
{
    if constexpr (DTYPE == DTYPE_F32)
        ((float *)to)[i] = value;
    else if constexpr (DTYPE == DTYPE_F16)
        ((uint16_t *)to)[i] = (uint16_t)floats_f16x2(value, 0);
    else
        ((uint16_t *)to)[i] = (uint16_t)floats_bf16x2(value, 0);
}

#endif
