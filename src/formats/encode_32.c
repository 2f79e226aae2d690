// SPDX-License-Identifier: MIT
// Blocks of 32 and 64 with scales of their own.
#include "src/formats/encode.h"

// d = max |x| / 127, quotients rounded half away from zero.
void weft__encode_Q8_0(const float *x, const float *weights, void *out)
{
    (void)weights; // half a step is 0.4 % of the largest: no other scale gains
    struct weft__q8_0 *block = out;
    float d = weft__largest_magnitude(x, 32) / 127, inverse = weft__inverse(d);
    block->d = weft__f16_from_f32(d);
    for (int i = 0; i < 32; i++)
        block->q[i] = (int8_t)weft__nearest(roundf(x[i] * inverse), -127, 127);
}

// The value of largest magnitude becomes exactly -8 d, so d may be negative.
void weft__encode_Q4_0(const float *x, const float *weights, void *out)
{
    struct weft__q4_0 *block = out;
    float d =
        weights ? weft__search_scale(x, weights, 32, -8, 7) : weft__largest_signed(x, 32) / -8;
    float inverse = weft__inverse(d);
    block->d = weft__f16_from_f32(d);
    for (int i = 0; i < 16; i++) {
        int low = weft__nearest(truncf(x[i] * inverse + 8.5f), 0, 15);
        int high = weft__nearest(truncf(x[i + 16] * inverse + 8.5f), 0, 15);
        block->q[i] = (uint8_t)(low | high << 4);
    }
}

// NaN is neither lesser nor greater. Of both zeros the second is taken, which fminf() leaves to the machine.
static float lesser(float a, float b)
{
    return b <= a || isnan(a) ? b : a;
}

static float greater(float a, float b)
{
    return b >= a || isnan(a) ? b : a;
}

static void span(const float *x, const float *weights, int steps, float *d, float *low)
{
    float high = *low = x[0];
    if (weights) {
        weft__search_span(x, weights, 32, steps, 1, d, low);
        return;
    }
    for (int i = 1; i < 32; i++) {
        *low = lesser(*low, x[i]);
        high = greater(high, x[i]);
    }
    *d = (high - *low) / (float)steps;
}

void weft__encode_Q4_1(const float *x, const float *weights, void *out)
{
    struct weft__q4_1 *block = out;
    float d, low;
    span(x, weights, 15, &d, &low);
    float inverse = weft__inverse(d);
    block->d = weft__f16_from_f32(d);
    block->m = weft__f16_from_f32(low);
    for (int i = 0; i < 16; i++) {
        int first = weft__nearest(truncf((x[i] - low) * inverse + 0.5f), 0, 15);
        int second = weft__nearest(truncf((x[i + 16] - low) * inverse + 0.5f), 0, 15);
        block->q[i] = (uint8_t)(first | second << 4);
    }
}

static void put_q5(uint8_t qh[4], uint8_t q[16], int j, int value)
{
    q[j % 16] = (uint8_t)(q[j % 16] | (value & 15) << (j < 16 ? 0 : 4));
    qh[j / 8] = (uint8_t)(qh[j / 8] | (value >> 4) << j % 8);
}

void weft__encode_Q5_0(const float *x, const float *weights, void *out)
{
    struct weft__q5_0 *block = out;
    float d =
        weights ? weft__search_scale(x, weights, 32, -16, 15) : weft__largest_signed(x, 32) / -16;
    float inverse = weft__inverse(d);
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(d);
    for (int j = 0; j < 32; j++)
        put_q5(block->qh, block->q, j, weft__nearest(truncf(x[j] * inverse + 16.5f), 0, 31));
}

void weft__encode_Q5_1(const float *x, const float *weights, void *out)
{
    struct weft__q5_1 *block = out;
    float d, low;
    span(x, weights, 31, &d, &low);
    float inverse = weft__inverse(d);
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(d);
    block->m = weft__f16_from_f32(low);
    for (int j = 0; j < 32; j++)
        put_q5(block->qh, block->q, j, weft__nearest(truncf((x[j] - low) * inverse + 0.5f), 0, 31));
}

static void put_levels(const int8_t levels[16], const float *x, float inverse, int half, uint8_t *q)
{
    for (int i = 0; i < half; i++)
        q[i] = (uint8_t)(weft__nearest_level(levels, x[i] * inverse) |
                         weft__nearest_level(levels, x[i + half] * inverse) << 4);
}

// The value of largest magnitude becomes the lowest level, -127 d.
void weft__encode_IQ4_NL(const float *x, const float *weights, void *out)
{
    struct weft__iq4_nl *block = out;
    float d = weights ? weft__search_levels(x, weights, 32, weft__iq4_levels)
                      : weft__largest_signed(x, 32) / weft__iq4_levels[0];
    block->d = weft__f16_from_f32(d);
    put_levels(weft__iq4_levels, x, weft__inverse(weft__f16_to_f32(block->d)), 16, block->q);
}

static float error_of(const float *x, const float *weights, float scale, int n)
{
    float error = 0, inverse = weft__inverse(scale);
    for (int i = 0; i < n; i++) {
        int level = weft__nearest_level(weft__e2m1_twice, x[i] * inverse);
        float off = x[i] - scale * (float)weft__e2m1_twice[level];
        error += weights[i] * off * off;
    }
    return error;
}

// The exponent is that of the largest magnitude less 2, that of the largest e2m1 number; one more where
// that loses less than cutting what is beyond 6.
void weft__encode_MXFP4(const float *x, const float *weights, void *out)
{
    struct weft__mxfp4 *block = out;
    float largest = weft__largest_magnitude(x, 32);
    int e = isfinite(largest) && largest > 0 ? ilogbf(largest) - 2 + 127 : 0;
    block->e = (uint8_t)(e < 0 ? 0 : e);
    if (weights && block->e > 0 &&
        error_of(x, weights, weft__mxfp4_scale((uint8_t)(block->e + 1)), 32) <
            error_of(x, weights, weft__mxfp4_scale(block->e), 32))
        block->e++;
    put_levels(weft__e2m1_twice, x, weft__inverse(weft__mxfp4_scale(block->e)), 16, block->q);
}

// Each group's scale makes its largest magnitude 6, rounded to fp8, or is one of its neighbours. Scales
// beyond 448 saturate: a tensor of larger numbers wants a scale beside it.
void weft__encode_NVFP4(const float *x, const float *weights, void *out)
{
    struct weft__nvfp4 *block = out;
    for (int s = 0; s < 4; s++) {
        const float *group = x + 16 * s;
        int first = weft__fp8_e4m3_from_f32(weft__largest_magnitude(group, 16) / 6), best = first;
        for (int d = first - 2; weights && d <= first + 5; d++)
            if (d > 0 && d < 0x7f &&
                error_of(group, weights + 16 * s, weft__nvfp4_scale((uint8_t)d), 16) <
                    error_of(group, weights + 16 * s, weft__nvfp4_scale((uint8_t)best), 16))
                best = d;
        block->d[s] = (uint8_t)best;
        float inverse = weft__inverse(weft__nvfp4_scale(block->d[s]));
        put_levels(weft__e2m1_twice, group, inverse, 8, block->q + 8 * s);
    }
}
