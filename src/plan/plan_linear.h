// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_LINEAR_H
#define WEFT_PLAN_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/linear.h>
#include <weft/tuning.h>

// How the rows of a matrix are cut into tasks.
struct weft__linear_split {
    int64_t rows_per_task;       // for a few rows of X, when the weights' way is the longest
    int64_t rows_per_batch_task; // for more
};

// Tasks are whole steps of rows, except the last one: of few_step for a few rows of X, of many_step for more.
// tuned says how long they are.
struct weft__linear_split weft__plan_linear_split(int64_t rows, int64_t row_bytes, int64_t few_step,
                                                  int64_t many_step, int32_t threads,
                                                  const weft_tuning *tuned);

// Elements of a row of X.
int64_t weft__plan_linear_x_row(const weft_linear_desc *desc);

// May scales and biases lie beside the codes of a (settled) part?
bool weft__plan_linear_planes(const weft_linear_part *part);

// Packed weights: rows close together, then scales and biases (where a part may have them).
struct weft__linear_packed {
    int64_t row_bytes, scales, biases, scale_row, bytes; // offsets; scale_row: elements
};
bool weft__plan_linear_packed(const weft_linear_part *part, int64_t cols,
                              struct weft__linear_packed *out);

// Is so much work not worth a second thread?
bool weft__plan_linear_alone(int64_t bytes, int32_t batch, int32_t threads);

#endif
