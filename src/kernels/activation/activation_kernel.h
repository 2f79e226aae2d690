// SPDX-License-Identifier: MIT
// The contract of activation kernels: rows [row0, row1) of a run whose arguments have been checked and
// whose strides have been settled. Elements are what the launch says, of the reference f32. Serial; y may be x
// or up.
#ifndef WEFT_KERNELS_ACTIVATION_KERNEL_H
#define WEFT_KERNELS_ACTIVATION_KERNEL_H

#include <weft/activation.h>

#include "src/kernels/kernel.h"

struct weft__activation_launch;

typedef void weft__activation_fn(const struct weft__activation_launch *launch,
                                 const weft_activation_args *args, int64_t row0, int64_t row1);

struct weft__activation_kernel {
    struct weft__kernel base;
    weft_activation_kind kind;
    weft__activation_fn *run;
};

// What a plan decides.
struct weft__activation_launch {
    const struct weft__activation_kernel *kernel;
    int64_t dim;
    float cap; // of soft-caps
    weft_dtype x_dtype, y_dtype;
    int64_t rows_per_task;
};

#endif
