// SPDX-License-Identifier: MIT
// The contract of embedding kernels: tokens [token0, token1) of a run whose arguments have been checked
// and whose strides have been settled. Serial; reads nothing of the table but the rows of its tokens.
#ifndef WEFT_KERNELS_EMBEDDING_KERNEL_H
#define WEFT_KERNELS_EMBEDDING_KERNEL_H

#include <weft/embedding.h>

#include "src/kernels/kernel.h"

struct weft__embedding_launch;

typedef void weft__embedding_fn(const struct weft__embedding_launch *launch,
                                const weft_embedding_args *args, int64_t token0, int64_t token1);

struct weft__embedding_kernel {
    struct weft__kernel base;
    weft_dtype format;
    weft__embedding_fn *run;
};

// What a plan decides.
struct weft__embedding_launch {
    const struct weft__embedding_kernel *kernel;
    int64_t rows, dim;
    weft_dtype scale_dtype; // of the planes; WEFT_DTYPE_NONE: there are none
    int64_t scale_rows, scale_cols;
    float scale;
    weft_dtype y_dtype;
    int64_t piece_bytes;   // of 256 elements of a row
    int64_t rows_per_task; // tokens
};

#endif
