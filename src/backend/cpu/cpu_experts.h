// SPDX-License-Identifier: MIT
// What a plan over experts decides on the CPU (cpu_experts.c) and its runs do (cpu_experts_run.c). Rows of X
// are those of tokens, in the order they came, or of choices, sorted by expert: the rows of one expert then
// lie together, as linear's kernels want them.
#ifndef WEFT_BACKEND_CPU_EXPERTS_H
#define WEFT_BACKEND_CPU_EXPERTS_H

#include "src/backend/cpu/cpu_linear.h"
#include "src/kernels/experts/experts_kernel.h"

// Rows of X in every form that a layer's kernels read; offsets in the workspace, -1: not made.
struct weft__experts_rows {
    int64_t f32, rounded, bf16;
};

enum { WEFT__ADAPTER_F32, WEFT__ADAPTER_F16, WEFT__ADAPTER_BF16, WEFT__ADAPTER_DTYPES };

struct weft__experts_launch {
    const struct weft__experts_kernel *kernel;
    weft_linear_desc inner_desc, down_desc;   // settled
    struct weft__linear_launch inner, down;   // their kernels, forms of X, norm and function
    bool inner_f32;                           // has kernels that read f32
    struct weft__experts_rows tokens, chosen; // X: of tokens; gathered, where an expert has several
    struct weft__experts_rows between;        // of down; f32: what gate makes, too
    int64_t up;                               // of choices
    int64_t results;                          // of choices: what down makes
    int64_t sums;                             // of tokens: y in f32 where it is not; else -1
    int64_t places;                           // int32 [choices]: where a choice stands when sorted
    int64_t factors;                          // of rows of X of choices, sorted; -1: none
    // One row of X, exact; or NULL.
    const struct weft__linear_kernel *adapters[WEFT__ADAPTER_DTYPES];
    int64_t expert_bytes;          // of one expert's weights
    int64_t inner_step, down_step; // rows of W that a task has a multiple of
};

// The kernel that reads packed weights of a part, NULL: they lie as in a file.
const struct weft__linear_kernel *weft__cpu_experts_packed(const weft_plan *plan, int32_t part);

#endif
