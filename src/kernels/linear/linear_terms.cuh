// SPDX-License-Identifier: MIT
// Numbers as sums of numbers of bf16: three of them are as exact as f32.
#ifndef WEFT_KERNELS_LINEAR_TERMS_CUH
#define WEFT_KERNELS_LINEAR_TERMS_CUH

#include "src/kernels/cuda/types.cuh"

// Rounding to bf16 must not make it infinite.
DEVICE float term_below(float x)
{
    const float most = bits_float(0x7f7f0000u);
    return fabsf(x) < bits_float(0x7f800000u) ? fminf(fmaxf(x, -most), most) : x;
}

// The next term of two numbers. What is left of them stays in a and b; nothing is of what is not finite.
DEVICE uint32_t term_take(float *a, float *b)
{
    const uint32_t pair = floats_bf16x2(term_below(*a), term_below(*b));
    const float2 taken = bf16x2_float2(pair);
    *a = fabsf(taken.x) < bits_float(0x7f800000u) ? *a - taken.x : 0.0f;
    *b = fabsf(taken.y) < bits_float(0x7f800000u) ? *b - taken.y : 0.0f;
    return pair;
}

#endif
