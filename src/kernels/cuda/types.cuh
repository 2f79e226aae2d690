// SPDX-License-Identifier: MIT
// What all device text starts from: widths, conversions of 16-bit floats, division of a warp.
// PTX instead of the toolkit's headers, so that the text compiles wherever NVRTC is.
#ifndef WEFT_KERNELS_CUDA_TYPES_CUH
#define WEFT_KERNELS_CUDA_TYPES_CUH

#include <stdint.h>

#define DEVICE static __device__ __forceinline__

enum { WARP = 32, EVERY_LANE = -1 };

DEVICE float bits_float(uint32_t bits)
{
    return __uint_as_float(bits);
}

DEVICE uint32_t float_bits(float value)
{
    return __float_as_uint(value);
}

DEVICE float f16_float(uint32_t half)
{
    float value;
    asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(half));
    return value;
}

// Both halves of a word.
DEVICE float2 f16x2_float2(uint32_t pair)
{
    float2 value;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(value.x), "=f"(value.y)
        : "r"(pair));
    return value;
}

DEVICE float2 bf16x2_float2(uint32_t pair)
{
    return make_float2(bits_float(pair << 16), bits_float(pair & 0xffff0000u));
}

// Rounded to nearest even; the first goes into the low half.
DEVICE uint32_t floats_f16x2(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

DEVICE uint32_t floats_bf16x2(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Of both halves of a word, rounded once.
DEVICE uint32_t sub_f16x2(uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

DEVICE uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

DEVICE uint32_t fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// Four bytes out of eight, a place of 4 bits each; the top bit of a place takes only the byte's sign, eight
// times (__byte_perm would drop that bit).
DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t places)
{
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(places));
    return bytes;
}

#endif
