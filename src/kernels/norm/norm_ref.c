// SPDX-License-Identifier: MIT
// Normalisation, written to be read: everything in double, two passes.
#include <math.h>

#include "src/kernels/norm/norm_kernel.h"

static void normalise(const struct weft__norm_launch *launch, const weft_norm_args *args,
                      int64_t row, bool centred)
{
    const float *x = args->x + row * args->x_stride;
    float *y = args->y + row * args->y_stride;
    double mean = 0, square = 0;
    for (int64_t i = 0; centred && i < launch->dim; i++)
        mean += x[i];
    mean /= (double)launch->dim;
    for (int64_t i = 0; i < launch->dim; i++)
        square += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / sqrt(square / (double)launch->dim + launch->eps);
    for (int64_t i = 0; i < launch->dim; i++) {
        double weight = args->weight ? (double)args->weight[i] + launch->weight_offset : 1;
        double bias = centred && args->bias ? args->bias[i] : 0;
        y[i] = (float)((x[i] - mean) * scale * weight + bias);
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
