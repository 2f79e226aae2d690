// SPDX-License-Identifier: MIT
// A random problem of linear, for weft-check.
#ifndef WEFT_KERNELS_LINEAR_PROBLEM_H
#define WEFT_KERNELS_LINEAR_PROBLEM_H

#include <weft/linear.h>

struct check_case;

struct problem {
    weft_linear_desc desc;
    weft_linear_args args;
    const float *x, *residual; // what args have
    bool residual_is_y;
    bool tiny_x;                 // activations near the subnormals
    bool narrows;                // activations and weights are rounded to bf16
    bool packs;                  // the kernel under test reads packed weights
    weft_dtype x_dtype, y_dtype; // of the kernel under test
    weft_linear_part part;       // scale_cols 0: nothing lies beside the codes
    weft_linear_part_args planes;
    double wide;    // weights and activations have 16 bits: error over sum |w||x|; or 0
    bool lays;      // then: of bf16, on a CPU
    bool x_rounded; // then: of a rounded buffer, else of X as it is
    bool tf32_sums; // sums of X are two numbers of tf32
};

// What a plan is for; then a problem of it, of `batch` rows of X (0: as many as the shape was drawn with).
struct problem weft__linear_problem_draw_shape(struct check_case *c);
struct problem weft__linear_problem_draw(struct check_case *c, const struct problem *shape,
                                         int32_t batch);

// How many problems of a shape a case puts: one, where they are long.
int32_t weft__linear_problem_lengths(const struct check_case *c);

#endif
