// SPDX-License-Identifier: MIT
// The passes of sample_select.h in vectors. An ISA file includes this after its vocabulary.
#include <float.h>
#include <math.h>

#include "src/kernels/sample/sample_select.h"

static int lanes_left(int32_t count, int32_t i)
{
    return count - i < VF32_LANES ? count - i : VF32_LANES;
}

static bool copy(const float *logits, int32_t count, float *to)
{
    vf32 low = vf32_set1(-INFINITY), high = vf32_set1(INFINITY), most = low;
    for (int32_t i = 0; i < count; i += VF32_LANES) {
        int n = lanes_left(count, i);
        vf32 x = vf32_keep(vf32_load_n(logits + i, n), 0, n, low);
        x = vf32_select_less(low, x, x, low); // NaN is not above anything
        most = vf32_max(most, vf32_select_less(x, high, x, low));
        vf32_store_n(to + i, vf32_min(x, vf32_set1(FLT_MAX)), n);
    }
    return vf32_largest(most) > -INFINITY;
}

static float largest(const float *logits, int32_t count)
{
    vf32 most = vf32_set1(-INFINITY);
    for (int32_t i = 0; i < count; i += VF32_LANES) {
        int n = lanes_left(count, i);
        most = vf32_max(most, vf32_keep(vf32_load_n(logits + i, n), 0, n, most));
    }
    return vf32_largest(most);
}

static double weigh(const float *logits, int32_t count, float shift, float inverse, float *weights)
{
    vf64 total = vf64_set1(0);
    for (int32_t i = 0; i < count; i += VF32_LANES) {
        int n = lanes_left(count, i);
        vf32 z = vf32_sub(vf32_load_n(logits + i, n), vf32_set1(shift));
        vf32 weight = vf32_exp(vf32_mul(z, vf32_set1(inverse)));
        weight = vf32_keep(weight, 0, n, vf32_zero());
        vf32_store_n(weights + i, weight, n);
        total = vf64_add(total, vf64_widen(weight));
    }
    return vf64_sum(total);
}

static double sum_from(const float *weights, int32_t count, float least)
{
    vf64 total = vf64_set1(0);
    for (int32_t i = 0; i < count; i += VF32_LANES) {
        vf32 w = vf32_load_n(weights + i, lanes_left(count, i));
        w = vf32_select_less(w, vf32_set1(least), vf32_zero(), w);
        total = vf64_add(total, vf64_widen(w));
    }
    return vf64_sum(total);
}
