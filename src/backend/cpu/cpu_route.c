// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/base/checked.h"
#include "src/kernels/route/route_kernel.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    (void)row, (void)desc;
    return true;
}

weft__prepare_fn weft__cpu_prepare_route;
weft_status weft__cpu_prepare_route(weft_plan *plan)
{
    const weft_route_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__route_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__route_launch *launch = plan->launch;
    launch->desc = *desc;
    // An expert costs an exponential and top_k comparisons.
    launch->rows_per_task = weft__plan_rows_per_task((int64_t)desc->experts * (16 + desc->top_k));
    snprintf(plan->description, sizeof plan->description,
             "route %s %d of %d experts, %d of %d groups, rows<=%d: %s",
             desc->score == WEFT_ROUTE_SIGMOID ? "sigmoid" : "softmax", desc->top_k, desc->experts,
             desc->top_groups, desc->groups, desc->max_rows, launch->kernel->base.name);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_rows, launch->rows_per_task,
                        weft__plan_bytes(desc->logits_dtype, desc->max_rows, desc->experts),
                        weft__plan_bytes(WEFT_F32, desc->max_rows, 2 * (int64_t)desc->top_k));
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__route_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(launch, work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_route;
weft_status weft__cpu_submit_route(const weft_plan *plan, const void *opaque_args,
                                   weft_stream *stream)
{
    const struct weft__route_launch *launch = plan->launch;
    const weft_route_args *args = opaque_args;
    (void)stream;
    if (args->rows > 0)
        weft__cpu_spread_rows(plan->context, args->rows, launch->rows_per_task, run,
                              &(struct weft__cpu_run){launch, args});
    if (args->starts)
        weft__route_sort(&launch->desc, args);
    return WEFT_OK;
}
