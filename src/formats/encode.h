// SPDX-License-Identifier: MIT
// What encoders share. weft__encode_<ID>(x, weights, block) rounds one block; row_encode.c makes rows of
// it. With weights == NULL scales come from the largest magnitudes; else they are searched for, so that
// the sum of weights[i] (x[i] - y[i])^2 becomes small, and weights are positive.
#ifndef WEFT_FORMATS_ENCODE_H
#define WEFT_FORMATS_ENCODE_H

#include <math.h>

#include "src/base/half.h"

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

// --- the search for scales ----------------------------------------------------------------------------

// The s for which s * q, q an integer in [low, high] (low < 0, |low| >= high), comes nearest to x: the
// largest magnitude is tried at places around `low`, and s is the least-squares solution for the numbers
// that follow from it. 0 for zeros.
float weft__search_scale(const float *x, const float *weights, int n, int low, int high);

// The same for x >= 0 and q in [0, high].
float weft__search_unsigned(const float *x, const float *weights, int n, int high);

// The same for 16 levels instead of integers; levels[0] has the largest magnitude.
float weft__search_levels(const float *x, const float *weights, int n, const int8_t levels[16]);

// scale and low for which scale * q + low, q in [0, high], comes nearest to x; low <= 0 unless `any_low`.
void weft__search_span(const float *x, const float *weights, int n, int high, int any_low,
                       float *scale, float *low);

static inline float weft__sum(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

// The factor that brings y nearest to x; 1 where there is none.
float weft__best_factor(const float *x, const float *weights, const float *y, int n);

// With WEFT__ENCODERS headers define theirs (row_encode.c).
#include "src/formats/formats.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    void weft__encode_##ID(const float *x, const float *weights, void *block);
#include <weft/formats.def>
#undef WEFT_FORMAT

#endif
