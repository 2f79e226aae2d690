// SPDX-License-Identifier: MIT
// What a plan of a linear layer decides on the CPU (cpu_linear.c) and its runs do (cpu_linear_run.c).
#ifndef WEFT_BACKEND_CPU_LINEAR_H
#define WEFT_BACKEND_CPU_LINEAR_H

#include "src/backend/cpu/cpu.h"
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/norm/norm_kernel.h"
#include "src/plan/plan_linear.h"

struct weft__linear_part_launch {
    const struct weft__linear_kernel *kernel;
    struct weft__linear_split split;
    int64_t y_offset; // of its f32 results in the workspace, where they are finished later
};

struct weft__linear_launch {
    const struct weft__linear_kernel *kernel; // of the first part
    struct weft__linear_part_launch parts[WEFT_LINEAR_MAX_PARTS];
    int64_t bytes; // of all parts' weights
    bool rounds;   // x is rounded here
    bool staged;   // results become y by way of the workspace
    weft__round_fn *round;
    struct weft__rounded_layout x_layout,
        y_layout;                              // of rounded buffers of cols and of rows columns
    struct weft__norm_launch norm;             // kernel NULL: none
    struct weft__activation_launch activation; // likewise
    // Offsets in the workspace: f32 rows of X after widening and norm (-1: none), rounded rows of X,
    // factors of rows.
    int64_t x_offset, rounded_offset, scale_offset;
};

#endif
