// SPDX-License-Identifier: MIT
// Numbers as sums of numbers that tensor cores take: three of bf16, exactly, eight bits of a float's 24 each; two of tf32, 22 bits.
#ifndef WEFT_KERNELS_LINEAR_TERMS_CUH
#define WEFT_KERNELS_LINEAR_TERMS_CUH

#include "src/kernels/cuda/types.cuh"

// What is left of a number when its upper half is taken; nothing of an infinity.
DEVICE float term_left(float x)
{
    const float left = x - bits_float(float_bits(x) & 0xffff0000u);
    return fabsf(x) == bits_float(0x7f800000u) ? 0.0f : left;
}

// The next term of two numbers. What is left of them stays in a and b.
DEVICE uint32_t term_take(float *a, float *b)
{
    const uint32_t pair = byte_permute(float_bits(*a), float_bits(*b), 0x7632);
    *a = term_left(*a), *b = term_left(*b);
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
