// SPDX-License-Identifier: MIT
#include <math.h>

#include "src/kernels/experts/experts_kernel.h"

weft__experts_sum_fn weft__experts_sum_ref;
void weft__experts_sum_ref(const struct weft__experts_sum *sum)
{
    for (int64_t i = 0; i < sum->n; i++) {
        float total = 0;
        for (int32_t k = 0; k < sum->top_k; k++)
            total += sum->weights[k] * sum->rows[sum->at[k] * sum->stride + i];
        sum->y[i] = sum->alpha * total + (sum->residual ? sum->residual[i] : 0);
    }
}

weft__experts_clamp_fn weft__experts_clamp_ref;
void weft__experts_clamp_ref(int64_t n, float limit, float slope, const float *gate, float *up)
{
    for (int64_t i = 0; i < n; i++) { // comparisons that keep NaN
        double g = gate[i] > limit ? limit : gate[i];
        double u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
        double falls = exp(-(double)slope * g);
        up[i] = (float)((isinf(falls) ? 0 : g / (1 + falls)) * (u + 1));
    }
}
