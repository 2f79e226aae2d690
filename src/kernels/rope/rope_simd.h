// SPDX-License-Identifier: MIT
// Rotations in vectors. An ISA file includes this after its vocabulary.
#include "src/kernels/rope/rope_kernel.h"

static void split_half(const float *x, float *y, const float *cosines, const float *sines,
                       int32_t rotary_dim)
{
    int32_t half = rotary_dim / 2;
    for (int32_t i = 0; i < half; i += VF32_LANES) {
        int n = half - i < VF32_LANES ? half - i : VF32_LANES;
        vf32 a = vf32_load_n(x + i, n), b = vf32_load_n(x + half + i, n);
        vf32 cosine = vf32_load_n(cosines + i, n), sine = vf32_load_n(sines + i, n);
        vf32_store_n(y + i, vf32_sub(vf32_mul(a, cosine), vf32_mul(b, sine)), n);
        vf32_store_n(y + half + i, vf32_fma(a, sine, vf32_mul(b, cosine)), n);
    }
}

static void interleaved(const float *x, float *y, const float *cosines, const float *sines,
                        int32_t rotary_dim)
{
    int32_t i = 0;
    for (; i + VF32_LANES <= rotary_dim; i += VF32_LANES) {
        vf32 pairs = vf32_load(x + i);
        vf32 cosine = vf32_load_pairs(cosines + i / 2), sine = vf32_load_pairs(sines + i / 2);
        vf32 turned = vf32_mul(vf32_swap_pairs(pairs), sine);
        vf32_store(y + i, vf32_alternate(pairs, cosine, turned));
    }
    for (; i < rotary_dim; i += 2) {
        float a = x[i], b = x[i + 1], cosine = cosines[i / 2], sine = sines[i / 2];
        y[i] = a * cosine - b * sine;
        y[i + 1] = b * cosine + a * sine;
    }
}

#define ROPE_SIMD(style, isa)                                                                      \
    weft__rope_rotate_fn weft__rope_##style##_##isa;                                               \
    void weft__rope_##style##_##isa(const float *x, float *y, const float *cosines,                \
                                    const float *sines, int32_t rotary_dim)                        \
    {                                                                                              \
        style(x, y, cosines, sines, rotary_dim);                                                   \
    }
