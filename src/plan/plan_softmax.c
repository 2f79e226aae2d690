// SPDX-License-Identifier: MIT
#include "src/plan/plan_softmax.h"

#include <stdio.h>

#include "src/kernels/softmax/softmax_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    (void)row;
    (void)opaque_desc;
    return true;
}

weft_status weft__plan_softmax(weft_plan *plan, const void *opaque_desc)
{
    const weft_softmax_desc *desc = opaque_desc;
    struct weft__softmax_launch *launch = plan->launch;
    weft_status status;
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    launch->dim = desc->dim;
    launch->scale = desc->scale;
    launch->max_rows = desc->max_rows;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "softmax dim %lld rows<=%d: %s",
             (long long)desc->dim, desc->max_rows, launch->kernel->base.name);
    return WEFT_OK;
}
