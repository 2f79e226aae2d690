// SPDX-License-Identifier: MIT
#include "src/plan/plan_sample.h"

#include <stdio.h>

#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/sample/sample_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    (void)row;
    (void)opaque_desc;
    return true;
}

weft_status weft__plan_sample(weft_plan *plan, const void *opaque_desc)
{
    const weft_sample_desc *desc = opaque_desc;
    struct weft__sample_launch *launch = plan->launch;
    weft_status status;
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    int64_t threads = plan->context->threads;
    launch->vocab = desc->vocab;
    launch->max_rows = desc->max_rows;
    launch->plane_bytes = weft__align_up((int64_t)desc->vocab * 4, WEFT__ALIGN);
    launch->rows_per_task = weft__plan_rows_per_task(desc->vocab);
    plan->workspace_bytes = (size_t)(WEFT__SAMPLE_PLANES * launch->plane_bytes * threads);
    snprintf(plan->description, sizeof plan->description, "sample vocab %d rows<=%d: %s",
             desc->vocab, desc->max_rows, launch->kernel->base.name);
    return WEFT_OK;
}
