// SPDX-License-Identifier: MIT
#include "src/backend/cpu/cpu_rows.h"

#include "src/base/checked.h"

struct spread {
    weft__cpu_rows_fn *run;
    const void *work;
    int64_t rows, rows_per_task;
};

static void task(void *opaque, int32_t index, int32_t thread)
{
    const struct spread *spread = opaque;
    int64_t row0 = index * spread->rows_per_task, row1 = row0 + spread->rows_per_task;
    spread->run(spread->work, row0, row1 < spread->rows ? row1 : spread->rows, thread);
}

// A few tasks per thread, so that a slow thread does not hold up the others.
static int64_t task_rows(const weft_context *context, int64_t rows, int64_t least)
{
    int64_t share = weft__ceil_div(rows, 4 * (int64_t)weft__cpu_of(context)->threads);
    return share > least ? share : least;
}

void weft__cpu_rows_info(weft_plan *plan, const struct weft__kernel *kernel, int64_t rows,
                         int64_t rows_per_task, int64_t bytes_read, int64_t bytes_written)
{
    int64_t tile = task_rows(plan->context, rows, rows_per_task);
    plan->info = (weft_plan_info){.splits = 1,
                                  .tasks = weft__ceil_div(rows, tile),
                                  .tile_rows = tile < rows ? tile : rows,
                                  .bytes_read = bytes_read,
                                  .bytes_written = bytes_written,
                                  .kernel = kernel->name};
}

void weft__cpu_spread_rows(const weft_context *context, int64_t rows, int64_t rows_per_task,
                           weft__cpu_rows_fn *run, const void *work)
{
    struct spread spread = {run, work, rows, task_rows(context, rows, rows_per_task)};
    int64_t tasks = weft__ceil_div(rows, spread.rows_per_task);
    if (tasks == 1 || weft__cpu_of(context)->threads == 1)
        run(work, 0, rows, 0);
    else
        weft__cpu_parallel_for(context, (int32_t)tasks, task, &spread);
}
