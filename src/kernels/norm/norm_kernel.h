// SPDX-License-Identifier: MIT
// The contract of normalisation kernels: rows [row0, row1) of a run whose arguments have been checked
// and whose strides have been settled. Serial; touches only the rows it is given.
#ifndef WEFT_KERNELS_NORM_KERNEL_H
#define WEFT_KERNELS_NORM_KERNEL_H

#include <weft/norm.h>

#include "src/kernels/kernel.h"

struct weft__norm_launch;

typedef void weft__norm_fn(const struct weft__norm_launch *launch, const weft_norm_args *args,
                           int64_t row0, int64_t row1);

struct weft__norm_kernel {
    struct weft__kernel base;
    weft_norm_kind kind;
    weft__norm_fn *run;
};

// What a plan decides.
struct weft__norm_launch {
    const struct weft__norm_kernel *kernel;
    int64_t dim;
    float eps;
    weft_dtype x_dtype, y_dtype, weight_dtype; // all f32 but for the reference
    float weight_offset; // added to every weight: 1 where the stored weight is w - 1
    int64_t rows_per_task;
};

#endif
