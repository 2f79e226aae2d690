// SPDX-License-Identifier: MIT
// What a run of a linear layer knows: rows of X are made ready (cpu_linear_ready.c), multiplied in tasks
// (cpu_linear_run.c), and results are finished (cpu_linear_finish.c).
#ifndef WEFT_BACKEND_CPU_LINEAR_RUN_H
#define WEFT_BACKEND_CPU_LINEAR_RUN_H

#include "src/backend/cpu/cpu_linear.h"

struct weft__cpu_linear_work {
    const weft_linear_desc *desc;
    const struct weft__linear_launch *launch;
    const weft_linear_args *args;
    unsigned char *workspace;
    const struct weft__cpu *cpu;
    bool few;                  // rounded rows have the planes for a few rows of X
    bool keeps_x;              // a kernel reads X in f32
    bool takes_bf16;           // X is bf16 as it comes, and nobody reads it otherwise
    struct weft__rounded acts; // of X
    const float *x;            // f32 rows of X
    int64_t x_stride;
    uint16_t *x_bf16; // rows of X in bf16, or NULL
    int64_t x_bf16_stride;
    const struct weft__linear_tiler *lay; // of rows of X, or NULL
    bool lays_numbers;    // all kernels take tiles: X is not rounded to 8 bits first
    uint16_t *x_tiles;    // then
    int64_t x_tiles_rows; // that have a place there
    int32_t ready_rows;   // of X that a task makes ready
    bool lays_ready;      // and lays, too, once they are rounded
    float *x_scale;       // or NULL
    int32_t row_tasks[WEFT_LINEAR_MAX_PARTS]; // by rows of W
    int32_t tasks_of[WEFT_LINEAR_MAX_PARTS];  // for each piece of X
    int64_t rows_per_task[WEFT_LINEAR_MAX_PARTS];
    int32_t piece[WEFT_LINEAR_MAX_PARTS]; // rows of X of a task
    struct weft__linear_planes planes[WEFT_LINEAR_MAX_PARTS];
    struct weft__linear_call calls[WEFT_LINEAR_MAX_PARTS];
    const struct weft__linear_kernel *kernels[WEFT_LINEAR_MAX_PARTS];
    bool packed[WEFT_LINEAR_MAX_PARTS]; // is what the kernel reads
};

// Rows [m0, m1) of X, and [r0, r1) of W.
struct weft__cpu_linear_range {
    int32_t m0, m1;
    int64_t r0, r1;
};

// Results of a block that something follows, of both parts of a gate.
struct weft__cpu_linear_stage {
    float *results[2];
    int64_t stride;
};

// Widens, norms and rounds the rows of X as the kernels want them, if anything of that is to be done; `alone`:
// by one thread.
void weft__cpu_linear_ready_x(const weft_context *context, struct weft__cpu_linear_work *work,
                              bool alone);

// Lays rounded rows as tiles, if a kernel wants them so.
void weft__cpu_linear_lay_x(const weft_context *context, struct weft__cpu_linear_work *work,
                            bool alone);

// Checks the rows of a rounded X and takes their factors.
weft_status weft__cpu_linear_take_rounded(const weft_plan *plan,
                                          struct weft__cpu_linear_work *work);

// Heads of the rounded rows that this run makes.
void weft__cpu_linear_begin_results(const struct weft__cpu_linear_work *work);

// What follows the product of a block of part p: function, residual, narrowing, rounding.
void weft__cpu_linear_finish(const struct weft__cpu_linear_work *work, int32_t p,
                             struct weft__cpu_linear_range at,
                             const struct weft__cpu_linear_stage *stage);

// The next layer's input of a range whose y is there, where the plan makes that.
void weft__cpu_linear_emit_next(const struct weft__cpu_linear_work *work,
                                struct weft__cpu_linear_range at);

#endif
