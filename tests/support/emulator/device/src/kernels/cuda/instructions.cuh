// SPDX-License-Identifier: MIT
// src/kernels/cuda/instructions.cuh for the host.
#ifndef WEFT_KERNELS_CUDA_INSTRUCTIONS_CUH
#define WEFT_KERNELS_CUDA_INSTRUCTIONS_CUH

#include "src/kernels/cuda/types.cuh"

// The compiler's own words for F16C: its header takes longer to read than all the rest.
typedef float emulated_floats __attribute__((vector_size(16)));
typedef short emulated_halves __attribute__((vector_size(16)));

DEVICE float f16_float(uint32_t half)
{
    return __builtin_ia32_vcvtph2ps(emulated_halves{(short)half})[0];
}

DEVICE float2 f16x2_float2(uint32_t pair)
{
    return make_float2(f16_float(pair & 0xffff), f16_float(pair >> 16));
}

DEVICE uint32_t float_f16(float value)
{
    return value != value ? 0x7fff
                          : (uint16_t)__builtin_ia32_vcvtps2ph(emulated_floats{value}, 0)[0];
}

DEVICE uint32_t float_bf16(float value)
{
    const uint32_t bits = float_bits(value);
    return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

DEVICE uint32_t floats_f16x2(float low, float high)
{
    return float_f16(low) | float_f16(high) << 16;
}

DEVICE uint32_t floats_bf16x2(float low, float high)
{
    return float_bf16(low) | float_bf16(high) << 16;
}

// Sums and products of two 16-bit floats are exact in f64, and rounded once through f32 rounded to odd.
DEVICE float emulated_odd(double exact)
{
    const float nearest = (float)exact;
    if (nearest != nearest || (double)nearest == exact)
        return nearest;
    uint32_t bits = float_bits(nearest);
    if (fabs((double)nearest) > fabs(exact))
        bits--;
    return bits_float(bits | 1);
}

template <class Of> DEVICE uint32_t emulated_f16x2(uint32_t a, uint32_t b, uint32_t c, Of of)
{
    const float2 x = f16x2_float2(a), y = f16x2_float2(b), z = f16x2_float2(c);
    return floats_f16x2(emulated_odd(of((double)x.x, (double)y.x, (double)z.x)),
                        emulated_odd(of((double)x.y, (double)y.y, (double)z.y)));
}

DEVICE uint32_t sub_f16x2(uint32_t a, uint32_t b)
{
    return emulated_f16x2(a, b, 0, [](double x, double y, double) { return x - y; });
}

DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b)
{
    return emulated_f16x2(a, b, 0, [](double x, double y, double) { return x * y; });
}

DEVICE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return emulated_f16x2(a, b, c, [](double x, double y, double z) { return fma(x, y, z); });
}

DEVICE uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    const float2 x = bf16x2_float2(a), y = bf16x2_float2(b), z = bf16x2_float2(c);
    return floats_bf16x2(emulated_odd(fma((double)x.x, (double)y.x, (double)z.x)),
                         emulated_odd(fma((double)x.y, (double)y.y, (double)z.y)));
}

DEVICE uint32_t relu_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t d = fma_bf16x2(a, b, c), negative = d & 0x80008000u;
    return d & ~(negative | (negative - (negative >> 15)));
}

DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t places)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t place = places >> 4 * i & 15;
        uint32_t byte = (uint32_t)(bytes >> 8 * (place & 7)) & 0xff;
        if (place & 8)
            byte = byte & 0x80 ? 0xff : 0;
        out |= byte << 8 * i;
    }
    return out;
}

DEVICE float exp2_fast(float x)
{
    const float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
}

DEVICE uint32_t float_tf32(float x)
{
    const uint32_t bits = float_bits(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

DEVICE uint2 e4m3x4_f16x4(uint32_t bytes)
{
    uint32_t half[4];
    for (int i = 0; i < 4; i++) {
        const uint32_t byte = bytes >> 8 * i & 0xff, size = byte & 0x7f;
        const float value = size < 8 ? (float)size * 0x1p-9f
                                     : ldexpf(1.0f + (float)(size & 7) / 8, (int)(size >> 3) - 7);
        half[i] = (size == 0x7f ? 0x7fffu : float_f16(value)) | (byte & 0x80) << 8;
    }
    return make_uint2(half[0] | half[1] << 16, half[2] | half[3] << 16);
}

DEVICE int32_t dot_2_low(uint32_t sums, uint32_t by, int32_t c)
{
    return c + (int16_t)sums * (int8_t)by + (int16_t)(sums >> 16) * (int8_t)(by >> 8);
}

DEVICE int32_t dot_2_high(uint32_t sums, uint32_t by, int32_t c)
{
    return dot_2_low(sums, by >> 16, c);
}

DEVICE uint32_t dot_2_unsigned(uint32_t sums, uint32_t by, uint32_t c)
{
    return c + (sums & 0xffffu) * (by & 255u) + (sums >> 16) * (by >> 8 & 255u);
}

DEVICE int32_t dot_4(int32_t a, int32_t b, int32_t c)
{
    return __dp4a(a, b, c);
}

DEVICE uint32_t dot_4_unsigned(uint32_t a, uint32_t b, uint32_t c)
{
    for (int32_t i = 0; i < 4; i++)
        c += (a >> 8 * i & 255u) * (b >> 8 * i & 255u);
    return c;
}

DEVICE uint32_t times_plus(uint32_t a, uint32_t b, uint32_t c)
{
    return a * b + c;
}

DEVICE int32_t computed_here(int32_t x)
{
    return x;
}

DEVICE uint32_t warp_most(uint32_t value)
{
    for (int32_t step = 16; step; step /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, value, step);
        value = other > value ? other : value;
    }
    return value;
}

DEVICE int32_t warp_total(int32_t value)
{
    for (int32_t step = 16; step; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

#endif
