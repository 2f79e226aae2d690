// SPDX-License-Identifier: MIT
#include "src/plan/plan_norm.h"

#include <stdio.h>

#include "src/kernels/norm/norm_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__norm_kernel *kernel = (const void *)row;
    const weft_norm_desc *desc = opaque_desc;
    return kernel->kind == desc->kind;
}

weft_status weft__plan_norm(weft_plan *plan, const void *opaque_desc)
{
    const weft_norm_desc *desc = opaque_desc;
    struct weft__norm_launch *launch = plan->launch;
    weft_status status;
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    launch->dim = desc->dim;
    launch->eps = desc->eps;
    launch->weight_offset = desc->flags & WEFT_NORM_WEIGHT_PLUS_ONE ? 1.0f : 0.0f;
    launch->max_rows = desc->max_rows;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "norm %s dim %lld rows<=%d: %s",
             desc->kind == WEFT_NORM_RMS ? "rms" : "layer", (long long)desc->dim, desc->max_rows,
             launch->kernel->base.name);
    return WEFT_OK;
}
