// SPDX-License-Identifier: MIT
// Spreads operations whose rows are independent of each other.
#ifndef WEFT_BACKEND_CPU_ROWS_H
#define WEFT_BACKEND_CPU_ROWS_H

#include "src/backend/cpu/cpu.h"

// Does rows [row0, row1) of a work that the caller knows. `thread` as for weft_task_fn.
typedef void weft__cpu_rows_fn(const void *work, int64_t row0, int64_t row1, int32_t thread);

// Does rows [0, rows): on the calling thread if they make but one task of rows_per_task, else as tasks
// of at least that many.
void weft__cpu_spread_rows(const weft_context *context, int64_t rows, int64_t rows_per_task,
                           weft__cpu_rows_fn *run, const void *work);

// Fills plan->info for an operation that spreads at most `rows` rows so.
void weft__cpu_rows_info(weft_plan *plan, const struct weft__kernel *kernel, int64_t rows,
                         int64_t rows_per_task, int64_t bytes_read, int64_t bytes_written);

// A launch with its arguments, for operations that need nothing more.
struct weft__cpu_run {
    const void *launch, *args;
};

#endif
