// SPDX-License-Identifier: MIT
#include "src/plan/plan_kv.h"

#include <stdio.h>

#include "src/kernels/kv/kv_kernel.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    return ((const struct weft__kv_kernel *)(const void *)row)->kv ==
           ((const weft_kv_append_desc *)desc)->layout.dtype;
}

// The best rotation; if a variant is forced, the best that needs no more than it, so that forcing the
// reference forces all of it.
static const struct weft__rope_kernel *choose_rotation(const weft_context *context,
                                                       const struct weft__kv_kernel *kernel,
                                                       bool forced, weft_rope_style style)
{
    const struct weft__kernel_table *table = context->backend->tables[WEFT__OP_rope];
    const struct weft__rope_kernel *rows = table->rows;
    uint32_t mask = context->isa_mask;
    if (forced)
        mask &= (2u << kernel->base.isa) - 1;
    for (int32_t i = 0; i < table->count; i++)
        if (rows[i].style == style && weft__kernel_fits(&rows[i].base, mask, NULL))
            return &rows[i];
    return NULL;
}

static weft_status plan_rotation(weft_plan *plan, struct weft__kv_launch *launch,
                                 const weft_rope_params *params, bool forced)
{
    const char *wrong =
        weft__rope_frequencies_make(params, launch->layout.head_dim, &launch->frequencies);
    if (wrong)
        return weft__fail(plan->context, WEFT_EINVAL, "kv: rope: %s", wrong);
    launch->rope =
        choose_rotation(plan->context, launch->kernel, forced, launch->frequencies.style);
    if (!launch->rope)
        return weft__fail(plan->context, WEFT_EUNSUPPORTED, "kv: no kernel for this rotation");
    return WEFT_OK;
}

weft_status weft__plan_kv(weft_plan *plan, const void *opaque_desc)
{
    const weft_kv_append_desc *desc = opaque_desc;
    struct weft__kv_launch *launch = plan->launch;
    weft_status status;
    launch->kernel = weft__plan_choose(plan, desc->variant, serves, desc, &status);
    if (!launch->kernel)
        return status;
    launch->layout = desc->layout;
    launch->num_q_heads = desc->num_q_heads;
    launch->max_tokens = desc->max_tokens;
    launch->rows_per_task = weft__plan_rows_per_task(
        ((int64_t)2 * desc->layout.num_kv_heads + desc->num_q_heads) * desc->layout.head_dim);
    if (desc->rope) {
        status = plan_rotation(plan, launch, desc->rope, desc->variant != NULL);
        if (status != WEFT_OK)
            return status;
    }
    snprintf(plan->description, sizeof plan->description,
             "kv append %s %d heads x %d page %d tokens<=%d: %s%s%s",
             weft_dtype_name(desc->layout.dtype), desc->layout.num_kv_heads, desc->layout.head_dim,
             desc->layout.page_size, desc->max_tokens, launch->kernel->base.name,
             launch->rope ? " with " : "", launch->rope ? launch->rope->base.name : "");
    return WEFT_OK;
}
