// SPDX-License-Identifier: MIT
// The contract of kernels that merge attention states: rows [row0, row1) of a run whose arguments have
// been checked and whose strides have been settled. Row r is head r % num_heads of token r / num_heads.
// Serial. A row is read before it is written: out may be one of the states.
#ifndef WEFT_KERNELS_MERGE_KERNEL_H
#define WEFT_KERNELS_MERGE_KERNEL_H

#include <weft/merge.h>

#include "src/kernels/kernel.h"

enum { WEFT__MERGE_MAX_DIM = 1024 };

struct weft__merge_launch;

typedef void weft__merge_fn(const struct weft__merge_launch *launch, const weft_merge_args *args,
                            int64_t row0, int64_t row1);

struct weft__merge_kernel {
    struct weft__kernel base;
    weft__merge_fn *run;
};

// What a plan decides.
struct weft__merge_launch {
    const struct weft__merge_kernel *kernel;
    int32_t num_heads, dim;
    weft_dtype dtype, out_dtype;
    int64_t rows_per_task;
};

// Where the elements of a row begin.
static inline int64_t weft__merge_x_at(const struct weft__merge_launch *launch,
                                       const weft_merge_args *args, int64_t row, int32_t state)
{
    return state * args->x_state_stride + row / launch->num_heads * args->x_token_stride +
           row % launch->num_heads * args->x_head_stride;
}

static inline int64_t weft__merge_out_at(const struct weft__merge_launch *launch,
                                         const weft_merge_args *args, int64_t row)
{
    return row / launch->num_heads * args->out_token_stride +
           row % launch->num_heads * args->out_head_stride;
}

#endif
