// SPDX-License-Identifier: MIT
// Single instructions that C++ has no word for: conversions, two 16-bit floats at a time, bytes, dots, sums
// over a warp. PTX instead of the toolkit's headers, so that the text compiles wherever NVRTC is. All PTX
// stands in this file, memory.cuh, bulk.cuh, mma.cuh and wgmma.cuh: tests/support/emulator/ has these five once
// more, for the host.
#ifndef WEFT_KERNELS_CUDA_INSTRUCTIONS_CUH
#define WEFT_KERNELS_CUDA_INSTRUCTIONS_CUH

#include "src/kernels/cuda/types.cuh"

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

// The same, but 0 for what is below it.
DEVICE uint32_t relu_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.relu.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
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

// 2^x, within 4 units of 2^-24; what is below 2^-126 is 0.
DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Rounded to the 11 bits that a product of tf32 takes.
DEVICE uint32_t float_tf32(float x)
{
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// Four numbers of fp8 (e4m3) as f16, which holds them all (sm_89).
DEVICE uint2 e4m3x4_f16x4(uint32_t bytes)
{
    uint2 wide = make_uint2(0, 0);
#if __CUDA_ARCH__ >= 890
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h;}"
        : "=r"(wide.x), "=r"(wide.y)
        : "r"(bytes));
#endif
    return wide;
}

// c plus the low 16 bits of `sums` times the low byte of `by`, plus high times the next byte; or with the upper
// two bytes.
DEVICE int32_t dot_2_low(uint32_t sums, uint32_t by, int32_t c)
{
    int32_t d;
    asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(sums), "r"(by), "r"(c));
    return d;
}

DEVICE int32_t dot_2_high(uint32_t sums, uint32_t by, int32_t c)
{
    int32_t d;
    asm("dp2a.hi.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(sums), "r"(by), "r"(c));
    return d;
}

// The same of numbers without a sign.
DEVICE uint32_t dot_2_unsigned(uint32_t sums, uint32_t by, uint32_t c)
{
    uint32_t d;
    asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(sums), "r"(by), "r"(c));
    return d;
}

// a b + c as one product: the compiler makes a shift and a sum of it where b is a power of two.
DEVICE uint32_t times_plus(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// c plus four products of signed bytes; never taken out of a loop.
DEVICE int32_t dot_4(int32_t a, int32_t b, int32_t c)
{
    asm volatile("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
}

// c plus four products of bytes without a sign.
DEVICE uint32_t dot_4_unsigned(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// The number again, of which the compiler no longer knows where it comes from: what follows from it is computed
// where it is used, not before a loop and then kept in memory.
DEVICE int32_t computed_here(int32_t x)
{
    asm volatile("" : "+r"(x));
    return x;
}

// The largest, and the sum, over all lanes of a warp.
DEVICE uint32_t warp_most(uint32_t value)
{
    uint32_t most;
    asm("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(value));
    return most;
}

DEVICE int32_t warp_total(int32_t value)
{
    int32_t total;
    asm("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(total) : "r"(value));
    return total;
}

#endif
