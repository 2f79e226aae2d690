// SPDX-License-Identifier: MIT
// Activation functions in vectors. An ISA file includes this after its vocabulary.
//
// Far below 0 all of them vanish: x is kept above -128 there, so that -infinity gives 0 and not NaN.
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/cpu/vf32_elements.h"
#include "src/kernels/element.h"

enum { ROWS_AHEAD = 8 };

static inline vf32 one_over_one_plus_exp(vf32 x)
{
    return vf32_div(vf32_set1(1), vf32_add(vf32_set1(1), vf32_exp(x)));
}

static inline vf32 silu(vf32 x, float cap)
{
    (void)cap;
    vf32 kept = vf32_max(vf32_set1(-128), x);
    return vf32_mul(kept, one_over_one_plus_exp(vf32_sub(vf32_zero(), kept)));
}

// x/2 (1 + tanh u) = x / (1 + exp(-2 u)), -2 u = x (a + b x^2)
static inline vf32 gelu_tanh(vf32 x, float cap)
{
    (void)cap;
    vf32 kept = vf32_max(vf32_set1(-128), x);
    vf32 factor =
        vf32_fma(vf32_mul(kept, kept), vf32_set1(-0.0713548163f), vf32_set1(-1.59576912f));
    return vf32_mul(kept, one_over_one_plus_exp(vf32_mul(kept, factor)));
}

// x Phi(x), Phi the normal distribution, whose tail is Phi(-t) = 2^P(t): its logarithm is smooth from 0, where
// it is -1, to where it no longer counts, and P falls ever faster behind that. P by Remez's algorithm over 0 <=
// t <= 5.6, its error weighted by what of Phi is promised: 0.001 of that.
static const float gelu_tail[] = {-5.849157047e-8f,
                                  1.425982972e-6f,
                                  -1.545332674e-5f,
                                  9.54141632e-5f,
                                  -0.0003258257865f,
                                  6.522725937e-5f,
                                  0.006895624649f,
                                  -0.05242112954f,
                                  -0.4592238913f,
                                  -1.151104131f,
                                  -1};

static inline void gelu_all(vf32 x[VF32_TOGETHER], float cap)
{
    (void)cap;
    vf32 t[VF32_TOGETHER], tail[VF32_TOGETHER];
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++) {
        x[i] = vf32_max(vf32_set1(-128), x[i]);
        t[i] = vf32_abs(x[i]);
        tail[i] = vf32_set1(gelu_tail[0]);
    }
    VF32_UNROLL
    for (size_t n = 1; n < sizeof gelu_tail / sizeof *gelu_tail; n++)
        vf32_fma_all(tail, t, gelu_tail[n]);
    vf32_exp2_all(tail);
    VF32_UNROLL
    for (int i = 0; i < VF32_TOGETHER; i++)
        x[i] = vf32_mul(
            x[i], vf32_select_less(x[i], vf32_zero(), tail[i], vf32_sub(vf32_set1(1), tail[i])));
}

static inline vf32 softcap(vf32 x, float cap)
{
    return vf32_mul(vf32_set1(cap), vf32_tanh(vf32_div(x, vf32_set1(cap))));
}

static inline vf32 none(vf32 x, float cap)
{
    (void)cap;
    return x;
}

// Where a vector of a row lies, in elements.
struct place {
    int64_t x, up, y, ahead;
};

// A function of several vectors: its chains of operations go side by side only where a text of its own says so,
// as GELU's.
#define ONE_BY_ONE(kind)                                                                           \
    static inline void kind##_all(vf32 x[VF32_TOGETHER], float cap)                                \
    {                                                                                              \
        VF32_UNROLL                                                                                \
        for (int i = 0; i < VF32_TOGETHER; i++)                                                    \
            x[i] = kind(x[i], cap);                                                                \
    }

ONE_BY_ONE(silu)
ONE_BY_ONE(gelu_tanh)
ONE_BY_ONE(softcap)
ONE_BY_ONE(none)

typedef void function(vf32 x[VF32_TOGETHER], float cap);

static inline void store(const struct weft__activation_launch *launch,
                         const weft_activation_args *args, const struct place *at, int64_t i, int n,
                         vf32 value)
{
    const weft_dtype x_dtype = launch->x_dtype, y_dtype = launch->y_dtype;
    __builtin_prefetch(weft__element_to(args->y, y_dtype, at->ahead + i), 1, 3);
    if (args->up)
        value = vf32_mul(value, vf32_load_element(args->up, x_dtype, at->up + i, n));
    vf32_store_element(args->y, y_dtype, at->y + i, value, n);
}

// `count` elements from i on, at most as many as VF32_TOGETHER vectors have.
static inline void apply_some(const struct weft__activation_launch *launch,
                              const weft_activation_args *args, const struct place *at, int64_t i,
                              int count, function *all)
{
    vf32 x[VF32_TOGETHER];
    VF32_UNROLL
    for (int v = 0; v < VF32_TOGETHER; v++) {
        const int left = count - v * VF32_LANES, n = left < VF32_LANES ? left : VF32_LANES;
        x[v] = n > 0 ? vf32_load_element(args->x, launch->x_dtype, at->x + i + v * VF32_LANES, n)
                     : vf32_zero();
    }
    all(x, launch->cap);
    VF32_UNROLL
    for (int v = 0; v < VF32_TOGETHER; v++) {
        const int left = count - v * VF32_LANES, n = left < VF32_LANES ? left : VF32_LANES;
        if (n > 0)
            store(launch, args, at, i + v * VF32_LANES, n, x[v]);
    }
}

// A block of results of a product has short rows far apart: lines of y are asked for some rows ahead.
static inline void apply(const struct weft__activation_launch *launch,
                         const weft_activation_args *args, int64_t row, function *all)
{
    enum { STEP = VF32_TOGETHER * VF32_LANES };
    const struct place at = {row * args->x_stride, row * args->up_stride, row * args->y_stride,
                             (row + ROWS_AHEAD) * args->y_stride};
    int64_t i = 0;
    for (; i + STEP <= launch->dim; i += STEP)
        apply_some(launch, args, &at, i, STEP, all);
    if (i < launch->dim)
        apply_some(launch, args, &at, i, (int)(launch->dim - i), all);
}

#define ACTIVATION_SIMD(kind, isa)                                                                 \
    weft__activation_fn weft__activation_##kind##_##isa;                                           \
    void weft__activation_##kind##_##isa(const struct weft__activation_launch *launch,             \
                                         const weft_activation_args *args, int64_t row0,           \
                                         int64_t row1)                                             \
    {                                                                                              \
        for (int64_t row = row0; row < row1; row++)                                                \
            apply(launch, args, row, kind##_all);                                                  \
    }
