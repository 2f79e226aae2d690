// SPDX-License-Identifier: MIT
// Functions that are the same text at every width. Included at the end of avx2.h, avx512.h and neon.h,
// never alone.
#ifndef WEFT_KERNELS_CPU_VF32_MATH_H
#define WEFT_KERNELS_CPU_VF32_MATH_H

// Before a loop whose trip count is a constant and whose body must become straight code.
#if defined(__clang__)
#define VF32_UNROLL _Pragma("unroll")
#else
#define VF32_UNROLL _Pragma("GCC unroll 16")
#endif

// 2^f for |f| <= 1/2: a polynomial whose relative error is below 2^-25.8 (weighted least squares on Chebyshev
// points, constant term fixed at 1).
enum { VF32_EXP2_TERMS = 7 };
static const float vf32_exp2_terms[VF32_EXP2_TERMS] = {0x1.41fbbcp-13f,
                                                       0x1.5f3e54p-10f,
                                                       0x1.3b2d4cp-7f,
                                                       0x1.c6aee8p-5f,
                                                       0x1.ebfbdcp-3f,
                                                       0x1.62e430p-1f,
                                                       1};

// 2^x for any x, within 1.5 units in the last place; -infinity gives 0, NaN gives NaN. x = n + f with |f| <= 1/2.
static inline vf32 vf32_exp2(vf32 x)
{
    x = vf32_max(vf32_set1(-200), x);
    x = vf32_min(vf32_set1(200), x);
    vf32 n = vf32_round(x), f = vf32_sub(x, n), p = vf32_set1(vf32_exp2_terms[0]);
    VF32_UNROLL
    for (int i = 1; i < VF32_EXP2_TERMS; i++)
        p = vf32_fma(p, f, vf32_set1(vf32_exp2_terms[i]));
    return vf32_scale(p, n);
}

// p[i] = p[i] x[i] + c, of VF32_TOGETHER vectors: chains of operations side by side, where one is longer than a
// CPU looks ahead.
enum { VF32_TOGETHER = 4 };

static inline void vf32_fma_all(vf32 p[VF32_TOGETHER], const vf32 x[VF32_TOGETHER], float c)
{
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++)
        p[i] = vf32_fma(p[i], x[i], vf32_set1(c));
}

// vf32_exp2() of each, to the bit.
static inline void vf32_exp2_all(vf32 x[VF32_TOGETHER])
{
    vf32 n[VF32_TOGETHER], f[VF32_TOGETHER], p[VF32_TOGETHER];
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++)
        x[i] = vf32_min(vf32_set1(200), vf32_max(vf32_set1(-200), x[i]));
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++)
        n[i] = vf32_round(x[i]);
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++) {
        f[i] = vf32_sub(x[i], n[i]);
        p[i] = vf32_set1(vf32_exp2_terms[0]);
    }
    VF32_UNROLL
    for (int i = 1; i < VF32_EXP2_TERMS; i++)
        vf32_fma_all(p, f, vf32_exp2_terms[i]);
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++)
        x[i] = vf32_scale(p[i], n[i]);
}

// e^x within 2 ulp, subnormal results included; 0 below -105, infinity above 88.8, NaN gives NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2, n ln 2 in two parts of which the first is exact;
// e^r = 1 + r + r^2 q(r), q by Remez's algorithm (2^-28).
static inline vf32 vf32_exp(vf32 x)
{
    x = vf32_min(vf32_set1(89), vf32_max(vf32_set1(-105), x));
    vf32 n = vf32_round(vf32_mul(x, vf32_set1(1.44269504f)));
    vf32 r = vf32_fma(n, vf32_set1(-0x1.62ep-1f), x);
    r = vf32_fma(n, vf32_set1(-0x1.0bfbe8p-15f), r);
    vf32 q = vf32_set1(0.001395049183f);
    q = vf32_fma(q, r, vf32_set1(0.008368889352f));
    q = vf32_fma(q, r, vf32_set1(0.04166620579f));
    q = vf32_fma(q, r, vf32_set1(0.1666651884f));
    q = vf32_fma(q, r, vf32_set1(0.5f));
    vf32 p = vf32_fma(vf32_mul(r, r), q, r);
    return vf32_scale(vf32_add(p, vf32_set1(1)), n);
}

// tanh x, within 4 units in the last place. Near 0 an odd polynomial (Cephes, tanhf), so that small
// arguments keep their relative precision; else 1 - 2 / (e^2x + 1).
static inline vf32 vf32_tanh(vf32 x)
{
    vf32 z = vf32_mul(x, x);
    vf32 p = vf32_set1(-5.70498872745e-3f);
    p = vf32_fma(p, z, vf32_set1(2.06390887954e-2f));
    p = vf32_fma(p, z, vf32_set1(-5.37397155531e-2f));
    p = vf32_fma(p, z, vf32_set1(1.33314422036e-1f));
    p = vf32_fma(p, z, vf32_set1(-3.33332819422e-1f));
    vf32 near = vf32_fma(vf32_mul(p, z), x, x);
    vf32 e = vf32_exp2(vf32_mul(x, vf32_set1(2.885390081777927f)));
    vf32 far = vf32_sub(vf32_set1(1), vf32_div(vf32_set1(2), vf32_add(e, vf32_set1(1))));
    return vf32_select_less(vf32_abs(x), vf32_set1(0.625f), near, far);
}

#endif
