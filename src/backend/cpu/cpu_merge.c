// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/base/checked.h"
#include "src/kernels/merge/merge_kernel.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    (void)row, (void)desc;
    return true;
}

weft__prepare_fn weft__cpu_prepare_merge;
weft_status weft__cpu_prepare_merge(weft_plan *plan)
{
    const weft_merge_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__merge_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__merge_launch *launch = plan->launch;
    launch->num_heads = desc->num_heads;
    launch->dim = desc->dim;
    launch->dtype = desc->dtype;
    launch->out_dtype = desc->out_dtype;
    launch->rows_per_task = weft__plan_rows_per_task((int64_t)desc->dim * desc->max_states);
    snprintf(plan->description, sizeof plan->description,
             "merge %s %d heads x %d, states<=%d tokens<=%d: %s", weft_dtype_name(desc->dtype),
             desc->num_heads, desc->dim, desc->max_states, desc->max_tokens,
             launch->kernel->base.name);
    int64_t rows = (int64_t)desc->max_tokens * desc->num_heads;
    weft__cpu_rows_info(
        plan, &launch->kernel->base, rows, launch->rows_per_task,
        weft__mul_saturated(weft__plan_bytes(desc->dtype, rows, desc->dim), desc->max_states),
        weft__plan_bytes(desc->out_dtype, rows, desc->dim));
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__merge_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(launch, work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_merge;
weft_status weft__cpu_submit_merge(const weft_plan *plan, const void *opaque_args,
                                   weft_stream *stream)
{
    const struct weft__merge_launch *launch = plan->launch;
    const weft_merge_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, (int64_t)args->tokens * launch->num_heads,
                          launch->rows_per_task, run, &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
