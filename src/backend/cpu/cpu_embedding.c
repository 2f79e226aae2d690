// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/embedding/embedding_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__embedding_kernel *kernel = (const void *)row;
    const weft_embedding_desc *desc = opaque_desc;
    return kernel->format == desc->table_dtype;
}

weft__prepare_fn weft__cpu_prepare_embedding;
weft_status weft__cpu_prepare_embedding(weft_plan *plan)
{
    const weft_embedding_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__embedding_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__embedding_launch *launch = plan->launch;
    launch->rows = desc->rows;
    launch->dim = desc->dim;
    launch->scale = desc->scale;
    launch->scale_dtype = desc->scale_dtype;
    launch->scale_rows = desc->scale_rows;
    launch->scale_cols = desc->scale_cols;
    launch->y_dtype = desc->y_dtype;
    launch->piece_bytes = weft_dtype_row_bytes(desc->table_dtype, 256);
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "embedding %s %lldx%lld tokens<=%d: %s",
             weft_dtype_name(desc->table_dtype), (long long)desc->rows, (long long)desc->dim,
             desc->max_tokens, launch->kernel->base.name);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_tokens, launch->rows_per_task,
                        weft__plan_bytes(desc->table_dtype, desc->max_tokens, desc->dim) +
                            (int64_t)4 * desc->max_tokens,
                        weft__plan_bytes(desc->y_dtype, desc->max_tokens, desc->dim));
    return WEFT_OK;
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__embedding_launch *launch = work->launch;
    (void)thread;
    launch->kernel->run(launch, work->args, row0, row1);
}

weft__submit_fn weft__cpu_submit_embedding;
weft_status weft__cpu_submit_embedding(const weft_plan *plan, const void *opaque_args,
                                       weft_stream *stream)
{
    const struct weft__embedding_launch *launch = plan->launch;
    const weft_embedding_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->tokens, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
