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

// How a kernel wants its quantised activations: the order of the sixteens within every 128 columns,
// so that they meet the weights as these lie in their blocks, and what to know of their sums.
struct weft__q8_layout {
    uint8_t place[8];  // where the sixteen i of each 128 columns is stored
    int32_t sum_elems; // columns per sum: 16 or 32
    int32_t factor;    // sum = int32 factor * sum of q; 0: f32 scale * sum of q
};

// Quantised activations of all batch rows: x[i] ~ q[i] * scale[i / 32]. `stride` is cols rounded up to
// WEFT__Q8_PAD; the columns past cols hold zeros with scale zero.
struct weft__q8_acts {
    const struct weft__q8_layout *layout;
    int64_t stride;
    int8_t *q;    // [batch][stride], each 128 in the layout's order
    float *scale; // [batch][stride / 32]
    void *sum;    // [batch][stride / sum_elems] int32_t or float
};

#define WEFT__Q8_PAD 256

struct weft__linear_call {
    const unsigned char *weight;
    int64_t weight_stride_bytes;
    int64_t rows, cols;
    int32_t batch;
    bool batch_invariant; // a row of Y must not depend on `batch`
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

// Quantises batch rows [row0, row1) of call->x into call->acts (acts q8 only). All quantisers agree
// to the bit:
//   scale = a / 127, a = max |x| of the group, NaN if there is one
//   q     = x * (127 / a) rounded to nearest even; 0 where a < 2^-120 or a is not finite
typedef void weft__linear_quantize_fn(const struct weft__linear_call *call, int32_t row0,
                                      int32_t row1);

struct weft__linear_kernel {
    struct weft__kernel base;
    weft_dtype weight;
    enum weft__linear_acts acts;
    int32_t row_step; // a task's rows are a multiple of it, except the last task's
    weft__linear_fn *run;
    weft__linear_quantize_fn *quantize;   // NULL for f32 activations
    const struct weft__q8_layout *layout; // likewise
};

enum { WEFT__FEW_ROWS = 8 };

// What a plan decides.
struct weft__linear_launch {
    const struct weft__linear_kernel *kernel;
    int64_t rows, cols;
    int32_t max_batch;
    bool batch_invariant;
    int64_t rows_per_task;       // for a few rows of X, when the weights' way is the longest
    int64_t rows_per_batch_task; // for more than WEFT__FEW_ROWS
    int64_t alone_rows;          // up to this many rows * batch one thread does it all
    // The planes of struct weft__q8_acts in the workspace.
    int64_t acts_stride, scale_offset, sum_offset;
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
