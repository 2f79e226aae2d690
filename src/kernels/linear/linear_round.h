// SPDX-License-Identifier: MIT
// Walks a row of activations for a rounding function. An instruction set defines the rounding of one
// group and includes this: the planes and the padding are the same for all.
#ifndef WEFT_KERNELS_LINEAR_ROUND_H
#define WEFT_KERNELS_LINEAR_ROUND_H

#include <math.h>
#include <string.h>

#include "src/kernels/kernel.h"
#include "src/kernels/linear/linear_rounded.h"

// The number that the rounding of a group follows from, given max |x|.
static inline float weft__round_inverse(float largest)
{
    return largest >= 0x1p-120f && largest < INFINITY ? 127.0f / largest : 0.0f;
}

// Rounds 32 columns to q; sum[i] is the sum of sixteen i. Returns the scale.
typedef float weft__round_group_fn(const float *x, int8_t *q, int32_t sum[2]);

// The planes for a few rows of X of the 128 columns at `at`, plainly.
static inline void weft__round_few(const struct weft__rounded *to, int64_t at)
{
    const int8_t *q = to->q + at;
    for (int i = 0; i < 8; i++)
        memcpy(to->halves + at + 64 * (i % 2) + 16 * (i / 2), q + 16 * i, 16);
    for (int i = 0; i < 32; i++)
        to->quads[at / 4 + i] = -32 * (q[4 * i] + q[4 * i + 1] + q[4 * i + 2] + q[4 * i + 3]);
    for (int i = 0; i < 16; i++) {
        const int32_t *even = to->quads + at / 4 + 8 * (i / 4) + i % 4;
        to->octets[at / 8 + i] = (even[0] + even[4]) / 8;
    }
}

WEFT__INLINE void weft__round_row(const struct weft__rounded *to, int64_t row, const float *x,
                                  int64_t cols, bool few, weft__round_group_fn *round_group)
{
    for (int64_t k = 0; k < to->stride; k += 32) {
        int64_t at = row * to->stride + k;
        int32_t sum[2] = {0, 0};
        float scale = 0;
        if (k < cols)
            scale = round_group(x + k, to->q + at, sum);
        else
            memset(to->q + at, 0, 32);
        to->scale[at / 32] = scale;
        to->scaled[at / 32] = scale * (float)(sum[0] + sum[1]);
        to->sum32[at / 32] = -8 * (sum[0] + sum[1]);
        to->sum16[at / 16] = -32 * sum[0];
        to->sum16[at / 16 + 1] = -32 * sum[1];
        if (few && to->halves && k % 128 == 96)
            weft__round_few(to, at - 96);
    }
}

#endif
