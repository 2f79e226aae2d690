// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/norm/norm_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__norm_kernel *kernel = (const void *)row;
    const weft_norm_desc *desc = opaque_desc;
    bool f32 =
        desc->x_dtype == WEFT_F32 && desc->y_dtype == WEFT_F32 && desc->weight_dtype == WEFT_F32;
    return kernel->kind == desc->kind && (f32 || row->level == WEFT__ISA_ref);
}

weft__prepare_fn weft__cpu_prepare_norm;
weft_status weft__cpu_prepare_norm(weft_plan *plan)
{
    const weft_norm_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__norm_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__norm_launch *launch = plan->launch;
    launch->dim = desc->dim;
    launch->eps = desc->eps;
    launch->x_dtype = desc->x_dtype;
    launch->y_dtype = desc->y_dtype;
    launch->weight_dtype = desc->weight_dtype;
    launch->weight_offset = desc->flags & WEFT_NORM_WEIGHT_PLUS_ONE ? 1.0f : 0.0f;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "norm %s dim %lld rows<=%d: %s",
             desc->kind == WEFT_NORM_RMS ? "rms" : "layer", (long long)desc->dim, desc->max_rows,
             launch->kernel->base.name);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_rows, launch->rows_per_task,
                        weft__plan_bytes(desc->x_dtype, desc->max_rows, desc->dim) +
                            weft__plan_bytes(desc->weight_dtype, 1, desc->dim),
                        weft__plan_bytes(desc->y_dtype, desc->max_rows, desc->dim));
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__norm_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(launch, work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_norm;
weft_status weft__cpu_submit_norm(const weft_plan *plan, const void *opaque_args,
                                  weft_stream *stream)
{
    const struct weft__norm_launch *launch = plan->launch;
    const weft_norm_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->rows, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
