// SPDX-License-Identifier: MIT
#include "src/plan/plan_linear.h"

#include "src/base/checked.h"
#include "src/base/memory.h"

void weft__plan_linear_split(struct weft__linear_launch *launch, int64_t row_bytes, int32_t threads)
{
    // A task is worth its dispatch (a fraction of a microsecond) and small enough that a slow thread
    // does not hold up the others for long. Batches reuse what they decode: larger tasks.
    const int64_t task_bytes = 192 * 1024, alone_bytes = 48 * 1024, tasks_per_thread = 8;
    int64_t step = launch->kernel->row_step;
    int64_t share = weft__ceil_div(launch->rows, threads);
    int64_t few = weft__ceil_div(task_bytes, row_bytes);
    few = few < share ? few : share;
    launch->rows_per_task = weft__ceil_div(few, step) * step;
    launch->rows_per_batch_task =
        weft__ceil_div(weft__ceil_div(share, tasks_per_thread), step) * step;
    launch->alone_rows = threads == 1 ? INT64_MAX : alone_bytes / row_bytes;
}
