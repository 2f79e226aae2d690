// SPDX-License-Identifier: MIT
// Softmax in double: maximum, exponentials with their sum, division.
#include <math.h>

#include "src/kernels/element.h"
#include "src/kernels/softmax/softmax_kernel.h"

extern const struct weft__softmax_passes weft__softmax_passes_ref;
const struct weft__softmax_passes weft__softmax_passes_ref = {NULL, NULL, NULL}; // whole rows

weft__softmax_fn weft__softmax_ref;
void weft__softmax_ref(const struct weft__softmax_launch *launch, const weft_softmax_args *args,
                       int64_t row0, int64_t row1)
{
    weft_dtype dtype = launch->dtype;
    for (int64_t row = row0; row < row1; row++) {
        void *x = weft__element_to(args->x, dtype, row * args->x_stride);
        double largest = -INFINITY, sum = 0;
        for (int64_t i = 0; i < launch->dim; i++)
            largest = fmax(largest, (double)weft__element_load(x, dtype, i) * launch->scale);
        if (largest == -INFINITY)
            largest = 0; // every exponential is 0, and so is every result
        for (int64_t i = 0; i < launch->dim; i++)
            sum += exp((double)weft__element_load(x, dtype, i) * launch->scale - largest);
        for (int64_t i = 0; i < launch->dim; i++) {
            double e = exp((double)weft__element_load(x, dtype, i) * launch->scale - largest);
            weft__element_store(x, dtype, i, sum == 0 ? 0 : (float)(e / sum));
        }
    }
}
