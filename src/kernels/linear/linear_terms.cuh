// SPDX-License-Identifier: MIT
// Numbers as sums of numbers that tensor cores take: three of bf16, exactly, eight bits of a float's 24 each; two of tf32, 22 bits.
#ifndef WEFT_KERNELS_LINEAR_TERMS_CUH
#define WEFT_KERNELS_LINEAR_TERMS_CUH

#include "src/kernels/cuda/types.cuh"

// The next term of two numbers; what is left of them stays in a and b: of an infinity NaN.
DEVICE uint32_t term_cut(float *a, float *b)
{
    const uint32_t pair = byte_permute(float_bits(*a), float_bits(*b), 0x7632);
    *a -= bits_float(float_bits(*a) & 0xffff0000u);
    *b -= bits_float(float_bits(*b) & 0xffff0000u);
    return pair;
}

// What is left of infinities is to be zero: terms but the first of two numbers, whose first is `pair`.
DEVICE uint32_t term_of_finite(uint32_t pair, uint32_t term)
{
    const uint32_t low = (pair & 0x7fffu) == 0x7f80u ? 0 : 0xffffu;
    const uint32_t high = (pair & 0x7fff0000u) == 0x7f800000u ? 0 : 0xffff0000u;
    return term & (low | high);
}

// The same for whom time is no matter.
DEVICE uint32_t term_take(float *a, float *b)
{
    const float x = *a, y = *b, infinity = bits_float(0x7f800000u);
    const uint32_t pair = term_cut(a, b);
    *a = fabsf(x) == infinity ? 0.0f : *a;
    *b = fabsf(y) == infinity ? 0.0f : *b;
    return pair;
}

// The upper 11 bits of a number, and what is left of it rounded to as many.
DEVICE uint32_t tf32_cut(float x)
{
    return float_bits(x) & 0xffffe000u;
}

DEVICE uint32_t tf32_rest(float x)
{
    const float high = bits_float(tf32_cut(x));
    return float_tf32(x == high ? 0.0f : x - high);
}

#endif
