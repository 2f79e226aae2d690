// SPDX-License-Identifier: MIT
#include "src/plan/plan_rope.h"

#include <stdio.h>

#include "src/kernels/rope/rope_kernel.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__rope_kernel *kernel = (const void *)row;
    const weft_rope_desc *desc = opaque_desc;
    return kernel->style == desc->rope.style;
}

weft_status weft__plan_rope(weft_plan *plan, const void *opaque_desc)
{
    const weft_rope_desc *desc = opaque_desc;
    struct weft__rope_launch *launch = plan->launch;
    weft_status status;
    const char *wrong =
        weft__rope_frequencies_make(&desc->rope, desc->head_dim, &launch->frequencies);
    if (wrong)
        return weft__fail(plan->context, WEFT_EINVAL, "rope: %s", wrong);
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    launch->num_heads = desc->num_heads;
    launch->head_dim = desc->head_dim;
    launch->max_tokens = desc->max_tokens;
    launch->rows_per_task =
        weft__plan_rows_per_task((int64_t)desc->num_heads * launch->frequencies.rotary_dim);
    snprintf(plan->description, sizeof plan->description,
             "rope %d heads of %d, %d rotary, tokens<=%d: %s", desc->num_heads, desc->head_dim,
             launch->frequencies.rotary_dim, desc->max_tokens, launch->kernel->base.name);
    return WEFT_OK;
}
