// SPDX-License-Identifier: MIT
#include "src/plan/plan_linear.h"

#include "src/base/checked.h"
#include "src/base/memory.h"

// Planes of the quantised activations, each aligned for the widest vector.
weft_status weft__plan_linear_workspace(weft_plan *plan, struct weft__linear_launch *launch)
{
    int64_t stride, elems, padded;
    if (!weft__add_i64(launch->cols, WEFT__Q8_PAD, &stride))
        return weft__fail(plan->context, WEFT_EOVERFLOW, "cols does not fit");
    stride = weft__align_up(launch->cols, WEFT__Q8_PAD);
    if (!weft__mul_i64(stride, launch->max_batch, &elems) ||
        !weft__add_i64(elems, 4 * WEFT__ALIGN, &padded) || padded > INT64_MAX / 4)
        return weft__fail(plan->context, WEFT_EOVERFLOW, "cols * max_batch does not fit");
    launch->acts_stride = stride;
    launch->scale_offset = weft__align_up(elems, WEFT__ALIGN);
    launch->sum_offset =
        weft__align_up(launch->scale_offset + elems / 32 * (int64_t)sizeof(float), WEFT__ALIGN);
    int64_t sums = elems / launch->kernel->layout->sum_elems;
    plan->workspace_bytes =
        (size_t)weft__align_up(launch->sum_offset + sums * (int64_t)sizeof(int32_t), WEFT__ALIGN);
    return WEFT_OK;
}

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
