// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/base/checked.h"
#include "src/kernels/pages/pages_kernel.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    (void)row, (void)desc;
    return true;
}

weft__prepare_fn weft__cpu_prepare_pages;
weft_status weft__cpu_prepare_pages(weft_plan *plan)
{
    static const char *const modes[] = {"copy", "exchange", "own"};
    const weft_pages_desc *desc = plan->desc;
    const weft_kv_layout *layout = &desc->layout;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__pages_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__pages_launch *launch = plan->launch;
    launch->rows_per_task =
        weft__plan_rows_per_task((int64_t)layout->page_size * (layout->head_dim + layout->v_dim));
    snprintf(plan->description, sizeof plan->description,
             "pages %s %s %d heads x %d page %d pairs<=%d: %s", modes[desc->mode],
             weft_dtype_name(layout->dtype), layout->num_kv_heads, layout->head_dim,
             layout->page_size, desc->max_pairs, launch->kernel->base.name);
    const int64_t heads =
        weft__mul_saturated((int64_t)desc->max_pairs * layout->page_size, layout->num_kv_heads);
    const int64_t moved = weft__plan_bytes(layout->dtype, heads, layout->head_dim) +
                          weft__plan_bytes(layout->v_dtype, heads, layout->v_dim);
    weft__cpu_rows_info(plan, &launch->kernel->base,
                        (int64_t)desc->max_pairs * layout->num_kv_heads, launch->rows_per_task,
                        moved, moved);
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__pages_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_pages;
weft_status weft__cpu_submit_pages(const weft_plan *plan, const void *args, weft_stream *stream)
{
    const struct weft__pages_launch *launch = plan->launch;
    const struct weft__pages_move move = weft__pages_describe(plan->desc, args);
    const int64_t rows = (int64_t)weft__pages_count(&move) * move.heads;
    (void)stream;
    if (move.copied)
        weft__pages_own(&move);
    if (rows > 0)
        weft__cpu_spread_rows(plan->context, rows, launch->rows_per_task, run,
                              &(struct weft__cpu_run){launch, &move});
    return WEFT_OK;
}
