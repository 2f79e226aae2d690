// SPDX-License-Identifier: MIT
#include "src/plan/plan.h"

#include "src/base/checked.h"
#include "src/base/memory.h"

static size_t aligned(size_t bytes)
{
    return (bytes + WEFT__ALIGN - 1) / WEFT__ALIGN * WEFT__ALIGN;
}

static void *allocate(weft_context *context, size_t bytes)
{
    void *memory = context->allocator.allocate(context->allocator.user, bytes);
    if (memory)
        memset(memory, 0, bytes);
    else
        weft__fail(context, WEFT_ENOMEM, "no memory for a plan of %zu bytes", bytes);
    return memory;
}

weft_status weft__plan_create(weft_context *context, enum weft__op op, void *desc,
                              size_t desc_bytes, const struct weft__plan_array *arrays,
                              int32_t num_arrays, weft_plan **out)
{
    size_t bytes = aligned(sizeof(struct weft_plan)) + aligned(desc_bytes);
    for (int32_t i = 0; i < num_arrays; i++)
        bytes += aligned(arrays[i].bytes);
    weft_plan *plan = allocate(context, bytes);
    if (!plan)
        return WEFT_ENOMEM;
    unsigned char *settled = (unsigned char *)plan + aligned(sizeof *plan);
    unsigned char *next = settled + aligned(desc_bytes);
    for (int32_t i = 0; i < num_arrays; i++) {
        const void *from;
        memcpy(&from, arrays[i].pointer, sizeof from);
        if (!from)
            continue;
        memcpy(next, from, arrays[i].bytes);
        memcpy(arrays[i].pointer, &(const void *){next}, sizeof from);
        next += aligned(arrays[i].bytes);
    }
    memcpy(settled, desc, desc_bytes);
    plan->context = context;
    plan->op = op;
    plan->desc = settled;
    *out = plan;
    return WEFT_OK;
}

static const struct weft__kernel *row_at(const struct weft__kernel_table *table, int32_t i)
{
    return (const void *)((const char *)table->rows + (size_t)i * (size_t)table->row_bytes);
}

// Words why there is no kernel: the variant does not exist, or cannot serve this.
static weft_status no_kernel(weft_context *context, enum weft__op op, const char *variant)
{
    const struct weft__backend *backend = context->backend;
    const struct weft__kernel_table *table = backend->tables[op];
    if (!variant)
        return weft__fail(context, WEFT_EUNSUPPORTED, "no %s kernel for these formats on %s",
                          table->op, backend->name);
    for (int32_t i = 0; i < table->count; i++)
        if (strcmp(row_at(table, i)->name, variant) == 0)
            return weft__fail(context, WEFT_EVARIANT,
                              "%s kernel '%s' does not serve these formats or needs another "
                              "instruction set than %s",
                              table->op, variant, backend->level(context));
    return weft__fail(context, WEFT_EVARIANT,
                      "no %s kernel is called '%s': `weft info --kernels` lists them", table->op,
                      variant);
}

const void *weft__plan_find(const weft_plan *plan, const char *variant,
                            weft__plan_serves_fn *serves)
{
    const struct weft__backend *backend = plan->context->backend;
    const struct weft__kernel_table *table = backend->tables[plan->op];
    for (int32_t i = 0; i < table->count; i++) {
        const struct weft__kernel *row = row_at(table, i);
        if ((!variant || strcmp(variant, row->name) == 0) && backend->fits(plan->context, row) &&
            serves(row, plan->desc))
            return row;
    }
    return NULL;
}

const void *weft__plan_choose(const weft_plan *plan, const char *variant,
                              weft__plan_serves_fn *serves, weft_status *status)
{
    const void *row = weft__plan_find(plan, variant, serves);
    if (!row)
        *status = no_kernel(plan->context, plan->op, variant);
    return row;
}

weft_status weft__plan_launch(weft_plan *plan, size_t bytes, const char *variant,
                              weft__plan_serves_fn *serves)
{
    weft_status status = WEFT_OK;
    const void *row = weft__plan_choose(plan, variant, serves, &status);
    if (!row)
        return status;
    plan->launch = allocate(plan->context, bytes);
    if (!plan->launch)
        return WEFT_ENOMEM;
    memcpy(plan->launch, &row, sizeof row);
    return WEFT_OK;
}

int64_t weft__plan_bytes(weft_dtype dtype, int64_t rows, int64_t elems)
{
    int64_t row = weft_dtype_row_bytes(dtype, elems);
    return row < 0 ? INT64_MAX / 16 : weft__mul_saturated(row, rows);
}

int64_t weft__plan_rows_per_task(int64_t dim)
{
    const int64_t task_elems = 16384; // some microseconds: a parallel region costs about as much
    return weft__ceil_div(task_elems, dim);
}
