// SPDX-License-Identifier: MIT
// The contract of softmax kernels: rows [row0, row1) of a run whose arguments have been checked and
// whose strides have been settled. Serial and in place.
#ifndef WEFT_KERNELS_SOFTMAX_KERNEL_H
#define WEFT_KERNELS_SOFTMAX_KERNEL_H

#include <weft/softmax.h>

#include "src/kernels/kernel.h"

struct weft__softmax_launch;

typedef void weft__softmax_fn(const struct weft__softmax_launch *launch,
                              const weft_softmax_args *args, int64_t row0, int64_t row1);

struct weft__softmax_kernel {
    struct weft__kernel base;
    weft__softmax_fn *run;
};

// What a plan decides.
struct weft__softmax_launch {
    const struct weft__softmax_kernel *kernel;
    int64_t dim;
    float scale;
    weft_dtype dtype; // f32 but for the reference
    int64_t rows_per_task;
};

#endif
