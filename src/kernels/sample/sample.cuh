// SPDX-License-Identifier: MIT
// What the kernels of sampling share: logits as keys, and the rank of a token.
#ifndef WEFT_KERNELS_SAMPLE_CUH
#define WEFT_KERNELS_SAMPLE_CUH

#include "src/kernels/cuda/block.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/sample/sample_device.h"

typedef unsigned long long wide; // what atomicAdd takes

#define FLOAT_MAX      bits_float(0x7f7fffffu)
#define MINUS_INFINITY bits_float(0xff800000u)

// Unsigned numbers in the order of floats.
DEVICE uint32_t key_of(float x)
{
    uint32_t bits = float_bits(x + 0.0f); // -0 is 0: equal logits go by id
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

DEVICE float float_of(uint32_t key)
{
    return bits_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// NaN as -infinity, infinity as the largest number.
DEVICE float cleaned(float x)
{
    return x > FLOAT_MAX ? FLOAT_MAX : x >= -FLOAT_MAX ? x : MINUS_INFINITY;
}

DEVICE wide larger(wide a, wide b)
{
    return a > b ? a : b;
}

DEVICE wide rank_of(float x, int32_t id)
{
    return (wide)key_of(x) << 32 | (uint32_t)~id;
}

#endif
