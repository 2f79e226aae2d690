// SPDX-License-Identifier: MIT
// Normalisation, written to be read: everything in double, two passes.
#include <math.h>

#include "src/kernels/element.h"
#include "src/kernels/norm/norm_kernel.h"

// Element i of an optional array.
static double parameter(const void *array, weft_dtype dtype, int64_t i, double fallback)
{
    return array ? weft__element_load(array, dtype, i) : fallback;
}

static void normalise(const struct weft__norm_launch *launch, const weft_norm_args *args,
                      int64_t row, bool centred)
{
    weft_dtype dtype = launch->x_dtype;
    const void *x = weft__element_at(args->x, dtype, row * args->x_stride);
    void *y = weft__element_to(args->y, launch->y_dtype, row * args->y_stride);
    int64_t residual0 = row * args->residual_stride;
    double mean = 0, square = 0;
    for (int64_t i = 0; centred && i < launch->dim; i++)
        mean += weft__element_load(x, dtype, i);
    mean /= (double)launch->dim;
    for (int64_t i = 0; i < launch->dim; i++) {
        double centre = weft__element_load(x, dtype, i) - mean;
        square += centre * centre;
    }
    double scale = 1 / sqrt(square / (double)launch->dim + launch->eps);
    for (int64_t i = 0; i < launch->dim; i++) {
        double weight = args->weight ? parameter(args->weight, launch->weight_dtype, i, 1) +
                                           launch->weight_offset
                                     : 1;
        double bias = centred ? parameter(args->bias, launch->weight_dtype, i, 0) : 0;
        double value = (weft__element_load(x, dtype, i) - mean) * scale * weight + bias;
        if (args->residual)
            value += weft__element_load(args->residual, launch->y_dtype, residual0 + i);
        weft__element_store(y, launch->y_dtype, i, (float)value);
    }
}

weft__norm_fn weft__norm_rms_ref;
void weft__norm_rms_ref(const struct weft__norm_launch *launch, const weft_norm_args *args,
                        int64_t row0, int64_t row1)
{
    for (int64_t row = row0; row < row1; row++)
        normalise(launch, args, row, false);
}

weft__norm_fn weft__norm_layer_ref;
void weft__norm_layer_ref(const struct weft__norm_launch *launch, const weft_norm_args *args,
                          int64_t row0, int64_t row1)
{
    for (int64_t row = row0; row < row1; row++)
        normalise(launch, args, row, true);
}
