// SPDX-License-Identifier: MIT
// Normalisation in vectors. Sums are f64: they cost little beside the memory traffic, and neither the
// length of a row nor its scale then matters. An ISA file includes this after its vocabulary.
#include <float.h>
#include <math.h>

#include "src/kernels/norm/norm_kernel.h"

static double sum(const float *x, int64_t dim)
{
    vf64 total[2] = {vf64_set1(0), vf64_set1(0)};
    int64_t i = 0;
    for (; i + 2 * VF32_LANES <= dim; i += 2 * VF32_LANES)
        for (int j = 0; j < 2; j++)
            total[j] = vf64_add(total[j], vf64_widen(vf32_load(x + i + j * VF32_LANES)));
    double rest = 0;
    for (; i < dim; i++)
        rest += x[i];
    return vf64_sum(vf64_add(total[0], total[1])) + rest;
}

static double sum_of_squares(const float *x, int64_t dim, double mean)
{
    vf64 total[2] = {vf64_set1(0), vf64_set1(0)};
    int64_t i = 0;
    for (; i + 2 * VF32_LANES <= dim; i += 2 * VF32_LANES)
        for (int j = 0; j < 2; j++) {
            vf64 wide = vf64_widen(vf32_load(x + i + j * VF32_LANES));
            wide = vf64_sub(wide, vf64_set1(mean));
            total[j] = vf64_fma(wide, wide, total[j]);
        }
    double rest = 0;
    for (; i < dim; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    return vf64_sum(vf64_add(total[0], total[1])) + rest;
}

// One row's places; no residual: NULL.
struct places {
    const float *x, *residual;
    float *y;
};

// y = scaled * (weight + offset) + bias + residual, lanes [0, n) of them at i.
static void finish(const struct weft__norm_launch *launch, const weft_norm_args *args,
                   const struct places *row, vf32 scaled, int64_t i, int n)
{
    if (args->weight) {
        vf32 weight = vf32_load_n((const float *)args->weight + i, n);
        scaled = vf32_mul(scaled, vf32_add(weight, vf32_set1(launch->weight_offset)));
    }
    if (args->bias)
        scaled = vf32_add(scaled, vf32_load_n((const float *)args->bias + i, n));
    if (row->residual)
        scaled = vf32_add(scaled, vf32_load_n(row->residual + i, n));
    vf32_store_n(row->y + i, scaled, n);
}

static int lanes_left(int64_t dim, int64_t i)
{
    return dim - i < VF32_LANES ? (int)(dim - i) : VF32_LANES;
}

// Rows so small or so large that 1 / sqrt(mean square) is no ordinary f32.
static void rms_wide(const struct weft__norm_launch *launch, const weft_norm_args *args,
                     const struct places *row, double scale)
{
    for (int64_t i = 0; i < launch->dim; i += VF32_LANES) {
        int n = lanes_left(launch->dim, i);
        vf64 wide = vf64_mul(vf64_widen(vf32_load_n(row->x + i, n)), vf64_set1(scale));
        finish(launch, args, row, vf64_narrow(wide), i, n);
    }
}

static void rms(const struct weft__norm_launch *launch, const weft_norm_args *args,
                const struct places *row)
{
    const float *x = row->x;
    const float *weights = args->weight;
    int64_t dim = launch->dim, i = 0;
    double mean_square = sum_of_squares(x, dim, 0) / (double)dim;
    double exact = 1 / sqrt(mean_square + launch->eps);
    if (!(exact >= FLT_MIN && exact <= FLT_MAX)) {
        rms_wide(launch, args, row, exact);
        return;
    }
    vf32 scale = vf32_set1((float)exact);
    vf32 offset = vf32_set1(launch->weight_offset);
    for (; weights && !row->residual && i + VF32_LANES <= dim; i += VF32_LANES) {
        vf32 weight = vf32_add(vf32_load(weights + i), offset);
        vf32_store(row->y + i, vf32_mul(vf32_mul(vf32_load(x + i), scale), weight));
    }
    for (; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        finish(launch, args, row, vf32_mul(vf32_load_n(x + i, n), scale), i, n);
    }
}

static void layer(const struct weft__norm_launch *launch, const weft_norm_args *args,
                  const struct places *row)
{
    const float *x = row->x;
    int64_t dim = launch->dim;
    double mean = sum(x, dim) / (double)dim;
    double variance = sum_of_squares(x, dim, mean) / (double)dim;
    vf64 scale = vf64_set1(1 / sqrt(variance + launch->eps));
    for (int64_t i = 0; i < dim; i += VF32_LANES) {
        int n = lanes_left(dim, i);
        vf64 centred = vf64_sub(vf64_widen(vf32_load_n(x + i, n)), vf64_set1(mean));
        finish(launch, args, row, vf64_narrow(vf64_mul(centred, scale)), i, n);
    }
}

#define NORM_SIMD(kind, isa)                                                                       \
    weft__norm_fn weft__norm_##kind##_##isa;                                                       \
    void weft__norm_##kind##_##isa(const struct weft__norm_launch *launch,                         \
                                   const weft_norm_args *args, int64_t row0, int64_t row1)         \
    {                                                                                              \
        for (int64_t row = row0; row < row1; row++) {                                              \
            const float *residual = args->residual;                                                \
            struct places at = {(const float *)args->x + row * args->x_stride,                     \
                                residual ? residual + row * args->residual_stride : NULL,          \
                                (float *)args->y + row * args->y_stride};                          \
            kind(launch, args, &at);                                                               \
        }                                                                                          \
    }
