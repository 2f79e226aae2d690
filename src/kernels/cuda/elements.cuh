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

// Does four_elements() of i, i + stride, ... find them in one piece, i a multiple of 4?
template <int DTYPE> DEVICE bool fours_aligned(const void *from, int64_t stride)
{
    const uint64_t bytes = DTYPE == DTYPE_F32 ? 16 : 8;
    return (uint64_t)from % bytes == 0 && stride % 4 == 0;
}

// Elements i .. i + 3 of a buffer for which fours_aligned() says yes.
template <int DTYPE> DEVICE float4 four_elements(const void *from, int64_t i)
{
    if constexpr (DTYPE == DTYPE_F32)
        return *(const float4 *)((const float *)from + i);
    const uint2 four = *(const uint2 *)((const uint16_t *)from + i);
    const float2 low = DTYPE == DTYPE_F16 ? f16x2_float2(four.x) : bf16x2_float2(four.x);
    const float2 high = DTYPE == DTYPE_F16 ? f16x2_float2(four.y) : bf16x2_float2(four.y);
    return make_float4(low.x, low.y, high.x, high.y);
}

DEVICE float squares_of(float4 v)
{
    return v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
}

// Likewise stored, each rounded to nearest even.
template <int DTYPE> DEVICE void set_four_elements(void *to, int64_t i, float4 v)
{
    if constexpr (DTYPE == DTYPE_F32)
        *(float4 *)((float *)to + i) = v;
    else if constexpr (DTYPE == DTYPE_F16)
        *(uint2 *)((uint16_t *)to + i) = make_uint2(floats_f16x2(v.x, v.y), floats_f16x2(v.z, v.w));
    else
        *(uint2 *)((uint16_t *)to + i) =
            make_uint2(floats_bf16x2(v.x, v.y), floats_bf16x2(v.z, v.w));
}

// Of elements i .. i + 3 the first `count`, zeros behind them.
template <int DTYPE> DEVICE float4 first_elements(const void *from, int64_t i, int32_t count)
{
    float v[4];
#pragma unroll
    for (int32_t b = 0; b < 4; b++)
        v[b] = b < count ? element<DTYPE>(from, i + b) : 0.0f;
    return make_float4(v[0], v[1], v[2], v[3]);
}

#endif
