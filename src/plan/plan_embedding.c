// SPDX-License-Identifier: MIT
#include "src/plan/plan_embedding.h"

#include <stdio.h>

#include "src/kernels/embedding/embedding_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__embedding_kernel *kernel = (const void *)row;
    const weft_embedding_desc *desc = opaque_desc;
    return kernel->format == desc->table_dtype;
}

weft_status weft__plan_embedding(weft_plan *plan, const void *opaque_desc)
{
    const weft_embedding_desc *desc = opaque_desc;
    struct weft__embedding_launch *launch = plan->launch;
    weft_status status;
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    launch->rows = desc->rows;
    launch->dim = desc->dim;
    launch->scale = desc->scale;
    launch->max_tokens = desc->max_tokens;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "embedding %s %lldx%lld tokens<=%d: %s",
             weft_dtype_name(desc->table_dtype), (long long)desc->rows, (long long)desc->dim,
             desc->max_tokens, launch->kernel->base.name);
    return WEFT_OK;
}
