// SPDX-License-Identifier: MIT
// The contract of linear kernels: Y[batch][rows] = alpha * X W^T + bias + residual.
//
// A kernel computes the rows [row0, row1) of W against all rows of X. It is serial, allocates nothing
// and reads nothing past a row's last block: weights may end at the end of a mapped file. Activations
// come in one of two forms, and the row of the table says which:
//
//   f32   as the caller gave them
//   q8    rounded to 8 bits in groups of 32, in planes (struct weft__q8_acts)
#ifndef WEFT_KERNELS_LINEAR_KERNEL_H
#define WEFT_KERNELS_LINEAR_KERNEL_H

#include <weft/linear.h>

#include "src/kernels/kernel.h"

enum weft__linear_acts { WEFT__ACTS_f32, WEFT__ACTS_q8 };

// Quantised activations of all batch rows: x[i] ~ q[i] * scale[i / 32].
struct weft__q8_acts {
    int8_t *q;      // [batch][cols]
    float *scale;   // [batch][cols / 32]
    int16_t *sum16; // [batch][cols / 16]: sum of q over each 16, for the formats with an offset
};

struct weft__linear_call {
    const unsigned char *weight;
    int64_t weight_stride_bytes;
    int64_t rows, cols;
    int32_t batch;
    float alpha;
    const float *x;
    int64_t x_stride;
    struct weft__q8_acts acts;
    float *y;
    int64_t y_stride;
    const float *bias;     // or NULL
    const float *residual; // or NULL
    int64_t residual_stride;
};

typedef void weft__linear_fn(const struct weft__linear_call *call, int64_t row0, int64_t row1);

// Quantises batch rows [row0, row1) of call->x into call->acts (acts q8 only).
typedef void weft__linear_quantize_fn(const struct weft__linear_call *call, int32_t row0,
                                      int32_t row1);

struct weft__linear_kernel {
    struct weft__kernel base;
    weft_dtype weight;
    enum weft__linear_acts acts;
    int32_t row_step; // a task's rows are a multiple of it, except the last task's
    weft__linear_fn *run;
    weft__linear_quantize_fn *quantize; // NULL for f32 activations
};

// What a plan decides.
struct weft__linear_launch {
    const struct weft__linear_kernel *kernel;
    int64_t rows, cols;
    int32_t max_batch;
    int64_t rows_per_task;
    // Offsets of the planes of struct weft__q8_acts in the workspace.
    int64_t scale_offset, sum16_offset;
};

// Stores what a kernel computed for one output.
static inline void weft__linear_store(const struct weft__linear_call *call, int32_t batch_row,
                                      int64_t row, float dot)
{
    float value = call->alpha * dot;
    if (call->bias)
        value += call->bias[row];
    if (call->residual)
        value += call->residual[batch_row * call->residual_stride + row];
    call->y[batch_row * call->y_stride + row] = value;
}

#endif
