// SPDX-License-Identifier: MIT
// Activation functions in double. At the infinities they take their limits: f(-inf) = 0, f(inf) = inf.
#include <math.h>

#include "src/kernels/activation/activation_kernel.h"

static double silu(double x, double cap)
{
    (void)cap;
    return x == -INFINITY ? 0 : x / (1 + exp(-x));
}

static double gelu(double x, double cap)
{
    (void)cap;
    return x == -INFINITY ? 0 : x / 2 * erfc(-x * 0.70710678118654752440);
}

// 1 + tanh(z) = 2 / (1 + exp(-2 z)) keeps its precision where tanh comes close to -1.
static double gelu_tanh(double x, double cap)
{
    (void)cap;
    double z = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x == -INFINITY ? 0 : x / (1 + exp(-2 * z));
}

static double softcap(double x, double cap)
{
    return cap * tanh(x / cap);
}

static double none(double x, double cap)
{
    (void)cap;
    return x;
}

static void apply(const struct weft__activation_launch *launch, const weft_activation_args *args,
                  int64_t row0, int64_t row1, double (*function)(double, double))
{
    for (int64_t row = row0; row < row1; row++) {
        const float *x = (const float *)args->x + row * args->x_stride;
        const float *up = args->up ? (const float *)args->up + row * args->up_stride : NULL;
        float *y = (float *)args->y + row * args->y_stride;
        for (int64_t i = 0; i < launch->dim; i++)
            y[i] = (float)(function(x[i], launch->cap) * (up ? up[i] : 1));
    }
}

#define ACTIVATION_REF(kind)                                                                       \
    weft__activation_fn weft__activation_##kind##_ref;                                             \
    void weft__activation_##kind##_ref(const struct weft__activation_launch *launch,               \
                                       const weft_activation_args *args, int64_t row0,             \
                                       int64_t row1)                                               \
    {                                                                                              \
        apply(launch, args, row0, row1, kind);                                                     \
    }

ACTIVATION_REF(silu)
ACTIVATION_REF(gelu)
ACTIVATION_REF(gelu_tanh)
ACTIVATION_REF(softcap)
ACTIVATION_REF(none)
