// SPDX-License-Identifier: MIT
// What a plan of a linear layer decides on the CPU (cpu_linear.c) and its runs do (cpu_linear_run.h).
#ifndef WEFT_BACKEND_CPU_LINEAR_H
#define WEFT_BACKEND_CPU_LINEAR_H

#include "src/backend/cpu/cpu.h"
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/norm/norm_kernel.h"
#include "src/plan/plan_linear.h"
#include "src/plan/tuning.h"

enum { WEFT__LINEAR_RANGES = 4 };

// The kernels of a part, by rows of X from one on: the first whose max_batch is enough. The last serves
// any number.
struct weft__linear_part_launch {
    const struct weft__linear_kernel *kernels[WEFT__LINEAR_RANGES];
    int32_t max_batch[WEFT__LINEAR_RANGES];
    int32_t num_kernels;
    const struct weft__linear_kernel *packed; // of packed weights, or NULL: they lie as in a file
    const struct weft__linear_kernel
        *packed_few; // of these up to so many rows of X as it is best for, or NULL
    struct weft__linear_split split;
};

// The kernel for `batch` rows of X; `few_planes`: they have the planes for a few rows. NULL where only a
// kernel that wants them was asked for by name.
static inline const struct weft__linear_kernel *
weft__linear_kernel_for(const struct weft__linear_part_launch *part, int32_t batch, bool few_planes)
{
    int32_t i = 0;
    while (i + 1 < part->num_kernels &&
           (batch > part->max_batch[i] || (part->kernels[i]->few_planes && !few_planes)))
        i++;
    return part->kernels[i]->few_planes && !few_planes ? NULL : part->kernels[i];
}

// The same of packed weights.
static inline const struct weft__linear_kernel *
weft__linear_packed_for(const struct weft__linear_part_launch *part, int32_t batch)
{
    const struct weft__linear_kernel *few = part->packed_few;
    return few && batch <= few->max_batch ? few : part->packed;
}

// Parts that are multiplied together: those of a gate are, others come one after the other.
static inline int32_t weft__linear_together(const weft_linear_desc *desc)
{
    return desc->gate ? desc->num_parts : 1;
}

// Results that a task of a few rows of X may have in a block of a thread's own; where tiles of AMX read packed weights, and all
// of X for each block, 128 rows of W by 512 of X (plain weights lose by it).
enum { WEFT__STAGE_FLOATS = WEFT__FEW_ROWS * 1024, WEFT__STAGE_TILED = 128 * 512 };

struct weft__linear_launch {
    const struct weft__linear_kernel *kernel; // of the first part and the most rows of X
    struct weft__linear_part_launch parts[WEFT_LINEAR_MAX_PARTS];
    int64_t bytes; // of all parts' weights
    bool rounds;   // x is rounded here
    weft__round_fn *round;
    weft__narrow_fn *narrow; // of X to bf16, or NULL
    int32_t turned;          // rows of X that it lays into one another, or 0
    int32_t together; // rows of X that a thread makes ready at a time: those share cache lines
    int32_t own_rows; // in f32, that it has room for meanwhile
    // Where something follows a product: floats of a block of results of a part, else 0; the rows of W of a block are a
    // multiple of stage_step.
    int64_t stage_floats, stage_step, stage_wanted;
    struct weft__rounded_layout x_layout,
        y_layout;                              // of rounded buffers of cols and of rows columns
    struct weft__norm_launch norm;             // kernel NULL: none
    struct weft__activation_launch activation; // of a block of results; without a gate it narrows
    struct weft__activation_launch widen;      // of rows of X; likewise without an x_gate
    // Offsets in the workspace: all f32 rows of X after widening and norm (-1: none), those that threads make
    // ready (-1: none), rounded rows of X, rows of X in bf16, and as kernels lay them (-1: none), factors of rows, blocks of
    // results of threads, and threads' rooms.
    int64_t x_offset, ready_offset, rounded_offset, bf16_offset, tiles_offset, scale_offset,
        stage_offset, room_offset;
    int64_t room_bytes; // of a thread, 0: no kernel wants that
};

// Makes the plan's launch and gives each part its kernels (cpu_linear_choose.c).
weft_status weft__cpu_linear_choose(weft_plan *plan);

// What the machine likes best for part p.
weft_tuning weft__cpu_linear_tuned(const weft_plan *plan, int32_t p);

// Does a kernel of any part, for however many rows of X, read them in f32?
static inline bool weft__cpu_linear_reads_f32(const struct weft__linear_launch *launch,
                                              int32_t parts)
{
    for (int32_t p = 0; p < parts; p++)
        for (int32_t i = 0; i < launch->parts[p].num_kernels; i++)
            if (launch->parts[p].kernels[i]->acts == WEFT__ACTS_f32)
                return true;
    return false;
}

#endif
