// SPDX-License-Identifier: MIT
#include "src/plan/plan.h"

#include "src/base/checked.h"
#include "src/base/memory.h"

weft_status weft__plan_create(weft_context *context, enum weft__op op, size_t launch_bytes,
                              weft_plan **out)
{
    size_t head = (sizeof(struct weft_plan) + WEFT__ALIGN - 1) / WEFT__ALIGN * WEFT__ALIGN;
    weft_plan *plan = context->allocator.allocate(context->allocator.user, head + launch_bytes);
    if (!plan)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a plan of %zu bytes",
                          head + launch_bytes);
    memset(plan, 0, head + launch_bytes);
    plan->context = context;
    plan->op = op;
    plan->launch = (unsigned char *)plan + head;
    *out = plan;
    return WEFT_OK;
}

const void *weft__plan_choose(const weft_plan *plan, const char *variant,
                              weft__plan_serves_fn *serves, const void *desc, weft_status *status)
{
    const struct weft__kernel_table *table = plan->context->backend->tables[plan->op];
    for (int32_t i = 0; i < table->count; i++) {
        const struct weft__kernel *row =
            (const void *)((const char *)table->rows + (size_t)i * (size_t)table->row_bytes);
        if (weft__kernel_fits(row, plan->context->isa_mask, variant) && serves(row, desc))
            return row;
    }
    *status = weft__plan_no_kernel(plan->context, plan->op, variant);
    return NULL;
}

int64_t weft__plan_rows_per_task(int64_t dim)
{
    const int64_t task_elems = 16384; // some microseconds: a parallel region costs about as much
    return weft__ceil_div(task_elems, dim);
}

weft_status weft__plan_no_kernel(weft_context *context, enum weft__op op, const char *variant)
{
    const struct weft__kernel_table *table = context->backend->tables[op];
    if (!variant)
        return weft__fail(context, WEFT_EUNSUPPORTED, "no %s kernel for these formats on %s",
                          table->op, context->backend->name);
    for (int32_t i = 0; i < table->count; i++) {
        const struct weft__kernel *row =
            (const void *)((const char *)table->rows + (size_t)i * (size_t)table->row_bytes);
        if (strcmp(row->name, variant) == 0)
            return weft__fail(context, WEFT_EVARIANT,
                              "%s kernel '%s' does not serve these formats or needs another "
                              "instruction set than %s",
                              table->op, variant, weft_context_isa(context));
    }
    return weft__fail(context, WEFT_EVARIANT,
                      "no %s kernel is called '%s': `weft info --kernels` lists them", table->op,
                      variant);
}
