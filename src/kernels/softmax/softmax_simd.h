// SPDX-License-Identifier: MIT
// Softmax in vectors: maximum, exponentials with their sum, product with the inverse of the sum. An
// ISA file includes this after its vocabulary.
#include <math.h>

#include "src/kernels/softmax/softmax_kernel.h"

static int lanes_left(int64_t dim, int64_t i)
{
    return dim - i < VF32_LANES ? (int)(dim - i) : VF32_LANES;
}

static float largest(const float *x, int64_t dim, vf32 sign)
{
    vf32 most = vf32_set1(-INFINITY);
    int64_t i = 0;
    for (; i + VF32_LANES <= dim; i += VF32_LANES)
        most = vf32_max(most, vf32_mul(vf32_load(x + i), sign));
    int n = lanes_left(dim, i);
    most = vf32_max(most, vf32_keep(vf32_mul(vf32_load_n(x + i, n), sign), 0, n, most));
    return vf32_largest(most);
}

// exp(z) for z = (x * half + shift) * scale, and their sum.
static double exponentials(float *x, int64_t dim, vf32 half, vf32 shift, vf32 scale)
{
    vf64 sum = vf64_set1(0);
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        vf32 e = vf32_exp(vf32_mul(vf32_fma(vf32_load_n(x + i, n), half, shift), scale));
        vf32_store_n(x + i, e, n);
        sum = vf64_add(sum, vf64_widen(vf32_keep(e, 0, n, vf32_zero())));
    }
    return vf64_sum(sum);
}

// z = scale * (x - m) with the element m whose product is the largest: the difference is rounded to its
// own size, so that rows far from 0 keep their precision, and products that exceed f32 do not arise. A
// small scale may bring back a difference that exceeds f32: then half of it is taken.
static void softmax(float *x, int64_t dim, float scale)
{
    float sign = scale < 0 ? -1 : 1, half = fabsf(scale) < 1 ? 0.5f : 1;
    float most = largest(x, dim, vf32_set1(sign)) * sign;
    if (most == -INFINITY * sign)
        most = 0; // every exponential is 0, and so is every result
    double sum =
        exponentials(x, dim, vf32_set1(half), vf32_set1(-most * half), vf32_set1(scale / half));
    vf32 inverse = vf32_set1(sum == 0 ? 0 : (float)(1 / sum));
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        vf32_store_n(x + i, vf32_mul(vf32_load_n(x + i, n), inverse), n);
    }
}

#define SOFTMAX_SIMD(isa)                                                                          \
    weft__softmax_fn weft__softmax_##isa;                                                          \
    void weft__softmax_##isa(const struct weft__softmax_launch *launch,                            \
                             const weft_softmax_args *args, int64_t row0, int64_t row1)            \
    {                                                                                              \
        for (int64_t row = row0; row < row1; row++)                                                \
            softmax((float *)args->x + row * args->x_stride, launch->dim, launch->scale);          \
    }
