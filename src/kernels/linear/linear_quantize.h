// SPDX-License-Identifier: MIT
// Walks the activations for a quantiser. An instruction set defines the rounding of one group and
// includes this: the planes, their order and the padding are the same for all.
#ifndef WEFT_KERNELS_LINEAR_QUANTIZE_H
#define WEFT_KERNELS_LINEAR_QUANTIZE_H

#include <math.h>

#include "src/kernels/linear/linear_kernel.h"

// Rounds a group of 32 into two sixteens; sum[i] is the sum of sixteen i. Returns the scale.
typedef float weft__q8_group_fn(const float *x, int8_t *q[2], int32_t sum[2]);

// The numbers that the group's scale and rounding follow from, given the bits of max |x|.
static inline float weft__q8_inverse(float largest)
{
    return largest >= 0x1p-120f && largest < INFINITY ? 127.0f / largest : 0.0f;
}

WEFT__INLINE void weft__q8_store_sums(const struct weft__q8_acts *acts, int64_t group, float scale,
                                      const int32_t sum[2])
{
    const struct weft__q8_layout *layout = acts->layout;
    if (layout->factor == 0) {
        ((float *)acts->sum)[group] = scale * (float)(sum[0] + sum[1]);
    } else if (layout->sum_elems == 32) {
        ((int32_t *)acts->sum)[group] = layout->factor * (sum[0] + sum[1]);
    } else {
        ((int32_t *)acts->sum)[2 * group] = layout->factor * sum[0];
        ((int32_t *)acts->sum)[2 * group + 1] = layout->factor * sum[1];
    }
}

// 128 columns at `at` in the planes, of which x has `n`.
WEFT__INLINE void weft__q8_quantize_128(const struct weft__q8_acts *acts, int64_t at,
                                        const float *x, int64_t n, weft__q8_group_fn *round_group)
{
    const uint8_t *place = acts->layout->place;
    WEFT__UNROLL for (int g = 0; g < 4; g++)
    {
        int8_t *q[2] = {acts->q + at + 16 * place[2 * g], acts->q + at + 16 * place[2 * g + 1]};
        int32_t sum[2] = {0, 0};
        float scale = 0;
        if (32 * g < n) {
            scale = round_group(x + 32 * g, q, sum);
        } else {
            memset(q[0], 0, 16);
            memset(q[1], 0, 16);
        }
        acts->scale[at / 32 + g] = scale;
        weft__q8_store_sums(acts, at / 32 + g, scale, sum);
    }
}

WEFT__INLINE void weft__q8_quantize_rows(const struct weft__linear_call *call, int32_t row0,
                                         int32_t row1, weft__q8_group_fn *round_group)
{
    const struct weft__q8_acts acts = call->acts;
    for (int32_t m = row0; m < row1; m++)
        for (int64_t k = 0; k < acts.stride; k += 128)
            weft__q8_quantize_128(&acts, m * acts.stride + k, call->x + m * call->x_stride + k,
                                  call->cols - k, round_group);
}

#endif
