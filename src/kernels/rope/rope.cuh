// SPDX-License-Identifier: MIT
// Rotating a pair of a head.
#ifndef WEFT_KERNELS_ROPE_CUH
#define WEFT_KERNELS_ROPE_CUH

#include "src/kernels/cuda/types.cuh"

enum { SPLIT_HALF, INTERLEAVED };

// cos and sin of a position, step by step as weft__rope_angles() (rope_angles.c) forms them; compiled
// without contraction the results are the same bits. QUICK: two small terms are multiplied by what the others
// divide by, which is sooner done, and may differ from them in the last bit of a double.
template <bool QUICK = false> DEVICE float2 rope_angle(int32_t position, double turns, float factor)
{
    const double two_pi = 6.283185307179586476925;
    double quarters = (double)position * turns * 4, nearest = rint(quarters);
    double angle = (quarters - nearest) * (two_pi / 4), z = angle * angle;
    double sine = (QUICK ? z * (1 / 362880.0) : z / 362880) - 1 / 5040.0;
    double cosine = 1 / 40320.0 - (QUICK ? z * (1 / 3628800.0) : z / 3628800);
    sine = 1 + z * (-1 / 6.0 + z * (1 / 120.0 + z * sine));
    cosine = 1 + z * (-1 / 2.0 + z * (1 / 24.0 + z * (-1 / 720.0 + z * cosine)));
    sine *= angle;
    double quarter = nearest - 4 * rint(nearest * 0.25);
    double a = 1 - fabs(quarter), b = quarter * (2 - fabs(quarter));
    return make_float2((float)((cosine * a - sine * b) * factor),
                       (float)((sine * a + cosine * b) * factor));
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
