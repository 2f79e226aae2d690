// SPDX-License-Identifier: MIT
// Numbers and sums of tensor cores. What they add they first cut off where the largest ends, and the sum
// likewise: what was seen on an H200, f16 sums of 64 keys that were off by more than roundings to nearest
// explain, and what others report.
#ifndef WEFT_TESTS_EMULATOR_TENSOR_CUH
#define WEFT_TESTS_EMULATOR_TENSOR_CUH

#include "src/kernels/cuda/types.cuh"

struct tensor_tf32 {
    static float of(uint32_t bits)
    {
        return bits_float(bits & 0xffffe000u);
    }
};

struct tensor_f16 {
    static float of(uint16_t bits)
    {
        return f16_float(bits);
    }
};

struct tensor_bf16 {
    static float of(uint16_t bits)
    {
        return bits_float((uint32_t)bits << 16);
    }
};

// Bits below the largest addend's first that are kept.
enum { TENSOR_BITS = 24 };

// c plus all products.
DEVICE float tensor_sum(float c, const float *product, int count)
{
    uint32_t largest = float_bits(c) & 0x7fffffffu;
    for (int k = 0; k < count; k++) {
        const uint32_t size = float_bits(product[k]) & 0x7fffffffu;
        largest = size > largest ? size : largest;
    }
    if (largest >= 0x7f800000u) {
        for (int k = 0; k < count; k++)
            c += product[k];
        return c;
    }
    const int exponent = (int)(largest >> 23) > 0 ? (int)(largest >> 23) - 127 : -126;
    const double unit = ldexp(1.0, TENSOR_BITS - exponent);
    int64_t sum = (int64_t)(c * unit);
    for (int k = 0; k < count; k++)
        sum += (int64_t)(product[k] * unit);
    // Towards zero: bits that f32 has no room for fall off.
    uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
    if (size >> 24)
        size &= ~(uint64_t)0 << (40 - __builtin_clzll(size));
    const double value = (double)size / unit;
    return (float)(sum < 0 ? -value : value);
}

#endif
