// SPDX-License-Identifier: MIT
// The contract of routing kernels: the choices of rows [row0, row1). Lists sorted by expert are made of them
// by whoever plans (src/backend/).
#ifndef WEFT_KERNELS_ROUTE_KERNEL_H
#define WEFT_KERNELS_ROUTE_KERNEL_H

#include <weft/route.h>

#include "src/kernels/kernel.h"

struct weft__route_launch;
typedef void weft__route_fn(const struct weft__route_launch *launch, const weft_route_args *args,
                            int64_t row0, int64_t row1);

struct weft__route_kernel {
    struct weft__kernel base;
    weft__route_fn *run;
};

// What a plan decides.
struct weft__route_launch {
    const struct weft__route_kernel *kernel;
    weft_route_desc desc; // settled
    int64_t rows_per_task;
};

// Sorts the choices of `rows` rows by expert.
void weft__route_sort(const weft_route_desc *desc, const weft_route_args *args);

#endif
