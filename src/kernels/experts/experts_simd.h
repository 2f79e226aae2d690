// SPDX-License-Identifier: MIT
// The sum over a token's experts, and the clamped gate, in vectors. An ISA file includes this after its
// vocabulary.
#include "src/kernels/experts/experts_kernel.h"

enum { SUM_VECTORS = 4 };

static inline int lanes_left(int64_t n, int64_t i)
{
    return n - i < VF32_LANES ? (int)(n - i) : VF32_LANES;
}

static inline vf32 finish(const struct weft__experts_sum *sum, int64_t i, int n, vf32 total)
{
    vf32 residual = sum->residual ? vf32_load_n(sum->residual + i, n) : vf32_zero();
    return vf32_fma(vf32_set1(sum->alpha), total, residual);
}

static inline void add_up(const struct weft__experts_sum *sum)
{
    const int64_t wide = SUM_VECTORS * VF32_LANES;
    int64_t i = 0;
    for (; i + wide <= sum->n; i += wide) {
        vf32 total[SUM_VECTORS];
        for (int v = 0; v < SUM_VECTORS; v++)
            total[v] = vf32_zero();
        for (int32_t k = 0; k < sum->top_k; k++) {
            const float *row = sum->rows + sum->at[k] * sum->stride + i;
            vf32 weight = vf32_set1(sum->weights[k]);
            for (int v = 0; v < SUM_VECTORS; v++)
                total[v] = vf32_fma(weight, vf32_load(row + v * VF32_LANES), total[v]);
        }
        for (int v = 0; v < SUM_VECTORS; v++)
            vf32_store(sum->y + i + v * VF32_LANES,
                       finish(sum, i + v * VF32_LANES, VF32_LANES, total[v]));
    }
    for (; i < sum->n; i += VF32_LANES) {
        int n = lanes_left(sum->n, i);
        vf32 total = vf32_zero();
        for (int32_t k = 0; k < sum->top_k; k++)
            total = vf32_fma(vf32_set1(sum->weights[k]),
                             vf32_load_n(sum->rows + sum->at[k] * sum->stride + i, n), total);
        vf32_store_n(sum->y + i, finish(sum, i, n, total), n);
    }
}

// The vectors of min and max give their second argument where it is NaN.
static inline void clamp(int64_t count, float limit, float slope, const float *gate, float *up)
{
    vf32 top = vf32_set1(limit), bottom = vf32_set1(-limit), one = vf32_set1(1);
    for (int64_t i = 0; i < count; i += VF32_LANES) {
        int n = lanes_left(count, i);
        vf32 g = vf32_min(top, vf32_load_n(gate + i, n));
        vf32 u = vf32_max(bottom, vf32_min(top, vf32_load_n(up + i, n)));
        // Far below 0 the result vanishes, also where g is -infinity.
        vf32 kept = vf32_max(vf32_set1(-128 / slope), g);
        vf32 falls = vf32_exp(vf32_mul(vf32_set1(-slope), kept));
        vf32_store_n(up + i, vf32_mul(vf32_div(kept, vf32_add(one, falls)), vf32_add(u, one)), n);
    }
}

#define EXPERTS_SIMD(isa)                                                                          \
    weft__experts_sum_fn weft__experts_sum_##isa;                                                  \
    void weft__experts_sum_##isa(const struct weft__experts_sum *sum)                              \
    {                                                                                              \
        add_up(sum);                                                                               \
    }                                                                                              \
    weft__experts_clamp_fn weft__experts_clamp_##isa;                                              \
    void weft__experts_clamp_##isa(int64_t n, float limit, float slope, const float *gate,         \
                                   float *up)                                                      \
    {                                                                                              \
        clamp(n, limit, slope, gate, up);                                                          \
    }
