// SPDX-License-Identifier: MIT
// Softmax in vectors: maximum, exponentials with their sum, product with the inverse of the sum. An
// ISA file includes this after its vocabulary.
#include <math.h>

#include "src/kernels/softmax/softmax_kernel.h"

static int lanes_left(int64_t dim, int64_t i)
{
    return dim - i < VF32_LANES ? (int)(dim - i) : VF32_LANES;
}

static float largest(const float *x, int64_t dim, vf32 scale)
{
    vf32 most = vf32_set1(-INFINITY);
    int64_t i = 0;
    for (; i + VF32_LANES <= dim; i += VF32_LANES)
        most = vf32_max(most, vf32_mul(vf32_load(x + i), scale));
    int n = lanes_left(dim, i);
    most = vf32_max(most, vf32_keep(vf32_mul(vf32_load_n(x + i, n), scale), 0, n, most));
    return vf32_largest(most);
}

static double exponentials(float *x, int64_t dim, vf32 scale, vf32 shift)
{
    vf64 sum = vf64_set1(0);
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        vf32 e = vf32_exp(vf32_fma(vf32_load_n(x + i, n), scale, shift));
        vf32_store_n(x + i, e, n);
        sum = vf64_add(sum, vf64_widen(vf32_keep(e, 0, n, vf32_zero())));
    }
    return vf64_sum(sum);
}

static void softmax(float *x, int64_t dim, float scale)
{
    float most = largest(x, dim, vf32_set1(scale));
    if (most == -INFINITY)
        most = 0; // every exponential is 0, and so is every result
    double sum = exponentials(x, dim, vf32_set1(scale), vf32_set1(-most));
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
            softmax(args->x + row * args->x_stride, launch->dim, launch->scale);                   \
    }
