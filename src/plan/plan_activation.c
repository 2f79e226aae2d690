// SPDX-License-Identifier: MIT
#include "src/plan/plan_activation.h"

#include <stdio.h>

#include "src/kernels/activation/activation_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__activation_kernel *kernel = (const void *)row;
    const weft_activation_desc *desc = opaque_desc;
    return kernel->kind == desc->kind;
}

weft_status weft__plan_activation(weft_plan *plan, const void *opaque_desc)
{
    const weft_activation_desc *desc = opaque_desc;
    struct weft__activation_launch *launch = plan->launch;
    weft_status status;
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    launch->dim = desc->dim;
    launch->max_rows = desc->max_rows;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "activation dim %lld rows<=%d: %s",
             (long long)desc->dim, desc->max_rows, launch->kernel->base.name);
    return WEFT_OK;
}
