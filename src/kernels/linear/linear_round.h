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

// The planes for a few rows of X of the 128 columns from k on, plainly.
static inline void weft__round_few(const struct weft__rounded_row *to, int64_t k)
{
    const int8_t *q = to->q + k;
    for (int i = 0; i < 8; i++)
        memcpy(to->halves + k + 64 * (i % 2) + 16 * (i / 2), q + 16 * i, 16);
    for (int i = 0; i < 32; i++)
        to->quads[k / 4 + i] = -32 * (q[4 * i] + q[4 * i + 1] + q[4 * i + 2] + q[4 * i + 3]);
    for (int i = 0; i < 16; i++) {
        const int32_t *even = to->quads + k / 4 + 8 * (i / 4) + i % 4;
        to->octets[k / 8 + i] = (even[0] + even[4]) / 8;
    }
}

WEFT__INLINE void weft__round_columns(const struct weft__rounded_row *to, int64_t k, int64_t end,
                                      const float *x, int64_t n, bool few,
                                      weft__round_group_fn *round_group)
{
    for (int64_t i = 0; k < end; k += 32, i += 32) {
        int32_t sum[2] = {0, 0};
        float scale = 0;
        if (i < n)
            scale = round_group(x + i, to->q + k, sum);
        else
            memset(to->q + k, 0, 32);
        to->scale[k / 32] = scale;
        to->scaled[k / 32] = scale * (float)(sum[0] + sum[1]);
        to->sum32[k / 32] = -8 * (sum[0] + sum[1]);
        to->sum16[k / 16] = -32 * sum[0];
        to->sum16[k / 16 + 1] = -32 * sum[1];
        if (few && k % WEFT__ROUNDED_STEP == 96)
            weft__round_few(to, k - 96);
    }
}

#endif
