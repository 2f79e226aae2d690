// SPDX-License-Identifier: MIT
// The contract of linear kernels: Y[batch][rows] = alpha * X W^T + bias + residual, all of it f32 but W
// and rounded activations.
//
// A kernel computes the rows [row0, row1) of W against all rows of X. It is serial, allocates nothing
// and reads nothing past a row's last block: weights may end at the end of a mapped file. Activations
// come in one of two forms, and the row of the table says which:
//
//   f32   as the caller gave them
//   q8    rounded to 8 bits in groups of 32, in planes (linear_rounded.h)
#ifndef WEFT_KERNELS_LINEAR_KERNEL_H
#define WEFT_KERNELS_LINEAR_KERNEL_H

#include <weft/linear.h>

#include "src/kernels/kernel.h"
#include "src/kernels/linear/linear_rounded.h"

enum weft__linear_acts { WEFT__ACTS_f32, WEFT__ACTS_q8 };

// What lies beside the codes of W (weft_linear_part); only kernels whose row says so are given it.
struct weft__linear_planes {
    const void *scales, *biases; // or NULL
    weft_dtype dtype;
    int64_t scale_cols, scale_rows, stride;
};

struct weft__linear_call {
    weft_dtype dtype; // of W
    const unsigned char *weight;
    int64_t weight_stride_bytes;
    int64_t rows, cols;
    int32_t batch;
    bool batch_invariant; // a row of Y must not depend on `batch`
    bool few;             // acts have the planes for a few rows of X
    float alpha;
    const struct weft__linear_planes *planes; // or NULL
    const float *x_scale;                     // [batch] factors of the rows of X, or NULL
    const float *x;
    int64_t x_stride;
    struct weft__rounded acts;
    float *y;
    int64_t y_stride;
    const float *bias;     // or NULL
    const float *residual; // or NULL
    int64_t residual_stride;
};

typedef void weft__linear_fn(const struct weft__linear_call *call, int64_t row0, int64_t row1);

struct weft__linear_kernel {
    struct weft__kernel base;
    weft_dtype weight;
    enum weft__linear_acts acts;
    int32_t row_step; // a task's rows are a multiple of it, except the last task's
    bool planes;      // takes scales and biases beside the codes
    weft__linear_fn *run;
};

enum { WEFT__FEW_ROWS = 8 };

// Columns that a sum of its own covers: in a single long f32 sum small products drown in a large one.
// With `least` a power of two of some 32 additions a lane, the additions within a chunk and the number
// of chunks both stay below sqrt(cols): the promise of linear.h holds for rows of any length.
static inline int64_t weft__linear_chunk(int64_t cols, int64_t least)
{
    while (least < cols / least)
        least *= 2;
    return least;
}

// Stores what a kernel computed for one output.
static inline void weft__linear_store(const struct weft__linear_call *call, int32_t batch_row,
                                      int64_t row, float dot)
{
    float value = call->alpha * dot;
    if (call->x_scale)
        value *= call->x_scale[batch_row];
    if (call->bias)
        value += call->bias[row];
    if (call->residual)
        value += call->residual[batch_row * call->residual_stride + row];
    call->y[batch_row * call->y_stride + row] = value;
}

#endif
