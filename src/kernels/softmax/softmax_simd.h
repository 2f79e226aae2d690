// SPDX-License-Identifier: MIT
// Softmax in vectors: maximum, exponentials with their sum, product with the inverse of the sum. An
// ISA file includes this after its vocabulary.
#include "src/kernels/cpu/vf32_elements.h"
#include "src/kernels/softmax/softmax_kernel.h"

static int lanes_left(int64_t dim, int64_t i)
{
    return dim - i < VF32_LANES ? (int)(dim - i) : VF32_LANES;
}

static float largest(const void *x, weft_dtype dtype, int64_t dim, float sign)
{
    vf32 most = vf32_set1(-INFINITY), factor = vf32_set1(sign);
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        most = vf32_max(most,
                        vf32_keep(vf32_mul(vf32_load_element(x, dtype, i, n), factor), 0, n, most));
    }
    return vf32_largest(most);
}

static vf32 exponential(const void *x, weft_dtype dtype, int64_t i, int n,
                        struct weft__softmax_exponent e)
{
    vf32 z = vf32_fma(vf32_load_element(x, dtype, i, n), vf32_set1(e.half), vf32_set1(e.shift));
    return vf32_exp(vf32_mul(z, vf32_set1(e.scale)));
}

// Elements of 16 bits would lose what they are if they held exponentials: those are made twice.
static double sum(void *x, weft_dtype dtype, int64_t dim, struct weft__softmax_exponent e)
{
    vf64 all = vf64_set1(0);
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        vf32 value = exponential(x, dtype, i, n, e);
        if (dtype == WEFT_F32)
            vf32_store_n((float *)x + i, value, n);
        all = vf64_add(all, vf64_widen(vf32_keep(value, 0, n, vf32_zero())));
    }
    return vf64_sum(all);
}

static void finish(void *x, weft_dtype dtype, int64_t dim, struct weft__softmax_exponent e,
                   float inverse)
{
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        vf32 value =
            dtype == WEFT_F32 ? vf32_load_element(x, dtype, i, n) : exponential(x, dtype, i, n, e);
        vf32_store_element(x, dtype, i, vf32_mul(value, vf32_set1(inverse)), n);
    }
}

static void softmax(char *x, weft_dtype dtype, int64_t dim, float scale)
{
    const int64_t size = dtype == WEFT_F32 ? 4 : 2, piece = weft__softmax_piece(dim);
    double all = 0;
    float most = largest(x, dtype, dim, scale < 0 ? -1 : 1);
    struct weft__softmax_exponent e = weft__softmax_exponent(most, scale);
    for (int64_t i = 0; i < dim; i += piece)
        all += sum(x + i * size, dtype, dim - i < piece ? dim - i : piece, e);
    finish(x, dtype, dim, e, all == 0 ? 0 : (float)(1 / all));
}

#define SOFTMAX_SIMD(isa)                                                                          \
    extern const struct weft__softmax_passes weft__softmax_passes_##isa;                           \
    const struct weft__softmax_passes weft__softmax_passes_##isa = {largest, sum, finish};         \
    weft__softmax_fn weft__softmax_##isa;                                                          \
    void weft__softmax_##isa(const struct weft__softmax_launch *launch,                            \
                             const weft_softmax_args *args, int64_t row0, int64_t row1)            \
    {                                                                                              \
        const int64_t size = launch->dtype == WEFT_F32 ? 4 : 2;                                    \
        for (int64_t row = row0; row < row1; row++)                                                \
            softmax((char *)args->x + row * args->x_stride * size, launch->dtype, launch->dim,     \
                    launch->scale);                                                                \
    }
