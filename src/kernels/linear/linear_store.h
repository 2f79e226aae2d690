// SPDX-License-Identifier: MIT
// As weft__linear_store(), for neighbouring rows of W in the lanes of a vector.
#ifndef WEFT_KERNELS_LINEAR_STORE_H
#define WEFT_KERNELS_LINEAR_STORE_H

#include "src/kernels/linear/linear_kernel.h"

enum { WEFT__STORES_AHEAD = 10 };

// Asks for what rows [row, row + n) of W by row m of X are stored to, WEFT__STORES_AHEAD rows of X before that:
// they are whole rows of Y apart, so each line is in memory or the last cache, and at strides of powers of two
// the first cache has room for few of them at a time.
WEFT__INLINE void weft__linear_fetch_stores(const struct weft__linear_call *call, int32_t m,
                                            int64_t row, int64_t n)
{
    const float *y = call->y + m * call->y_stride + row;
    for (int64_t i = 0; i < n && i < 64; i += 16)
        __builtin_prefetch(y + i, 1, 3);
}

// Rows [row, row + n) of W, n at most a vector, by row m of X. A header of vf32 comes before this one.
WEFT__INLINE void weft__linear_store_lanes(const struct weft__linear_call *call, int32_t m,
                                           int64_t row, int n, vf32 dot)
{
    vf32 value = vf32_mul(vf32_set1(call->alpha), dot);
    if (call->x_scale)
        value = vf32_mul(value, vf32_set1(call->x_scale[m]));
    if (call->bias)
        value = vf32_add(value, vf32_load_n(call->bias + row, n));
    if (call->residual)
        value = vf32_add(value, vf32_load_n(call->residual + m * call->residual_stride + row, n));
    vf32_store_n(call->y + m * call->y_stride + row, value, n);
}

#endif
