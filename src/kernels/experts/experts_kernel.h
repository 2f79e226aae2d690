// SPDX-License-Identifier: MIT
// The contract of the kernels that end a run over experts: products are linear's kernels, the sum over a
// token's experts is its own.
#ifndef WEFT_KERNELS_EXPERTS_KERNEL_H
#define WEFT_KERNELS_EXPERTS_KERNEL_H

#include <weft/experts.h>

#include "src/kernels/kernel.h"

// y[i] = residual[i] + alpha * sum over k of weights[k] * rows[at[k] * stride + i], i in [0, n), k ascending.
struct weft__experts_sum {
    int64_t n;
    int32_t top_k;
    const float *rows;
    int64_t stride;
    const int32_t *at;
    const float *weights;
    float alpha;
    const float *residual; // or NULL
    float *y;
};
typedef void weft__experts_sum_fn(const struct weft__experts_sum *sum);

// up becomes the clamped gate's result (weft/experts.h).
typedef void weft__experts_clamp_fn(int64_t n, float limit, float slope, const float *gate,
                                    float *up);

struct weft__experts_kernel {
    struct weft__kernel base;
    weft__experts_sum_fn *sum;
    weft__experts_clamp_fn *clamp;
};

#endif
