// SPDX-License-Identifier: MIT
// A run over experts on the CPU: what its regions (cpu_experts_run.c) and the pieces of an expert's rows
// (cpu_experts_pieces.c) share.
#ifndef WEFT_BACKEND_CPU_EXPERTS_WORK_H
#define WEFT_BACKEND_CPU_EXPERTS_WORK_H

#include <stdatomic.h>

#include "src/backend/cpu/cpu_experts.h"

enum { WEFT__EXPERTS_MAX_PIECES = 512 }; // of down's rows where their sum is in the same region

struct weft__experts_work {
    const weft_experts_desc *desc;
    const struct weft__experts_launch *launch;
    const weft_experts_args *args;
    unsigned char *workspace;
    const struct weft__cpu *cpu;
    int32_t choices;
    const float *x; // rows of tokens, normed
    int64_t x_stride;
    float *between, *up, *results; // rows of choices
    int32_t *places;
    float *factors; // of rows of X of choices, sorted; NULL: results are weighed
    int32_t active; // experts that anyone goes to
    int32_t experts[WEFT_ROUTE_MAX_EXPERTS];
    int64_t inner_rows, down_rows; // of a task
    // Where all is one region: pieces of an expert's inner rows that are not done, whether its row is ready for down,
    // experts whose piece of down's rows is not done.
    _Atomic int32_t inner_left[WEFT__FEW_ROWS], ready[WEFT__FEW_ROWS],
        down_left[WEFT__EXPERTS_MAX_PIECES];
};

static inline void *weft__experts_at(const struct weft__experts_work *work, int64_t offset)
{
    return work->workspace + offset;
}

static inline struct weft__rounded weft__experts_rounded(const struct weft__experts_work *work,
                                                         const struct weft__linear_launch *launch,
                                                         int64_t offset, int64_t row)
{
    if (offset < 0)
        return (struct weft__rounded){.rows = NULL};
    return (struct weft__rounded){launch->x_layout,
                                  work->workspace + offset + row * launch->x_layout.row_bytes};
}

static inline uint16_t *weft__experts_bf16(const struct weft__experts_work *work, int64_t offset,
                                           int64_t cols, int64_t row)
{
    return offset < 0
               ? NULL
               : (uint16_t *)weft__experts_at(work, offset) + row * weft__linear_bf16_stride(cols);
}

// Gate, up and function of a piece of the rows of expert e. `next`: the expert of which the thread will read the same
// piece, or -1: memory is asked for it ahead.
void weft__cpu_experts_inner(const struct weft__experts_work *work, int32_t e, int64_t piece,
                             int32_t next);

// Down of a piece of the rows of expert e.
void weft__cpu_experts_down(const struct weft__experts_work *work, int32_t e, int64_t piece,
                            int32_t next);

#endif
