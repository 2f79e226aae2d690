// SPDX-License-Identifier: MIT
// What encoders share. weft__encode_<ID>(x, block) rounds one block; row_encode.c makes rows of it.
#ifndef WEFT_FORMATS_ENCODE_H
#define WEFT_FORMATS_ENCODE_H

#include <math.h>

#include "src/formats/formats.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    void weft__encode_##ID(const float *x, void *block);
#include <weft/formats.def>
#undef WEFT_FORMAT

// 1 / scale, and 0 for a scale that is 0 or so small that the quotient is not finite.
static inline float weft__inverse(float scale)
{
    float inverse = 1 / scale;
    return isfinite(inverse) ? inverse : 0;
}

// Nearest integer, ties to even, in [low, high]; NaN gives low.
static inline int weft__nearest(float value, int low, int high)
{
    return (int)lrintf(fminf(fmaxf(value, (float)low), (float)high));
}

static inline float weft__largest_magnitude(const float *x, int count)
{
    float largest = 0;
    for (int i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

// The value of largest magnitude, with its sign.
static inline float weft__largest_signed(const float *x, int count)
{
    float largest = 0;
    for (int i = 0; i < count; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    return largest;
}

// Which of 16 levels is nearest; the first of equals.
static inline int weft__nearest_level(const int8_t levels[16], float value)
{
    int best = 0;
    for (int n = 1; n < 16; n++)
        if (fabsf(value - (float)levels[n]) < fabsf(value - (float)levels[best]))
            best = n;
    return best;
}

#endif
