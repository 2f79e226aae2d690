// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/softmax/softmax_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const weft_softmax_desc *desc = opaque_desc;
    return desc->dtype == WEFT_F32 || row->level == WEFT__ISA_ref;
}

weft__prepare_fn weft__cpu_prepare_softmax;
weft_status weft__cpu_prepare_softmax(weft_plan *plan)
{
    const weft_softmax_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__softmax_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__softmax_launch *launch = plan->launch;
    launch->dim = desc->dim;
    launch->scale = desc->scale;
    launch->dtype = desc->dtype;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "softmax dim %lld rows<=%d: %s",
             (long long)desc->dim, desc->max_rows, launch->kernel->base.name);
    int64_t bytes = weft__plan_bytes(desc->dtype, desc->max_rows, desc->dim);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_rows, launch->rows_per_task, bytes,
                        bytes);
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__softmax_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(launch, work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_softmax;
weft_status weft__cpu_submit_softmax(const weft_plan *plan, const void *opaque_args,
                                     weft_stream *stream)
{
    const struct weft__softmax_launch *launch = plan->launch;
    const weft_softmax_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->rows, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
