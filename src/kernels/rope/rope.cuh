// SPDX-License-Identifier: MIT
// Rotating a pair of a head.
#ifndef WEFT_KERNELS_ROPE_CUH
#define WEFT_KERNELS_ROPE_CUH

#include "src/kernels/cuda/types.cuh"

enum { SPLIT_HALF, INTERLEAVED };

// cos and sin of a position, f64 until the angle is reduced: positions reach 2^31.
DEVICE float2 rope_angle(int32_t position, double turns, float factor)
{
    double turn = (double)position * turns, sine, cosine;
    sincospi(2 * (turn - rint(turn)), &sine, &cosine);
    return make_float2((float)(cosine * factor), (float)(sine * factor));
}

// The places of pair i in a head.
template <int HOW> DEVICE int2 rope_places(int32_t i, int32_t rotary_dim)
{
    return HOW == SPLIT_HALF ? make_int2(i, i + rotary_dim / 2) : make_int2(2 * i, 2 * i + 1);
}

// One rounding of each result: products of floats are exact in f64.
DEVICE float2 rope_turn(float a, float b, float2 angle)
{
    double x = a, y = b;
    return make_float2((float)(x * angle.x - y * angle.y), (float)(x * angle.y + y * angle.x));
}

#endif
