// SPDX-License-Identifier: MIT
// Plans over experts: the linear layers that an expert consists of are planned as such, and their launches
// taken over; what they share, and where rows lie, is decided here.
#include "src/backend/cpu/cpu_experts.h"

#include <stdio.h>

#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/plan/plan_experts.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    (void)row, (void)desc;
    return true;
}

extern weft__prepare_fn weft__cpu_prepare_linear;

// Plans a linear layer and keeps its launch.
static weft_status take_launch(const weft_plan *plan, const weft_linear_desc *desc,
                               struct weft__linear_launch *launch)
{
    const weft_allocator *allocator = &plan->context->allocator;
    weft_linear_desc in_rows = *desc;
    weft_plan probe = {.context = plan->context, .op = WEFT__OP_linear, .desc = &in_rows};
    in_rows.flags |= WEFT__LINEAR_X_IN_ROWS;
    weft_status status = weft__cpu_prepare_linear(&probe);
    if (status == WEFT_OK)
        memcpy(launch, probe.launch, sizeof *launch);
    if (probe.launch)
        allocator->release(allocator->user, probe.launch);
    return status;
}

// Kernels for the matrices of adapters, and the rows that a task has a multiple of with them.
static weft_status plan_adapters(const weft_plan *plan, struct weft__experts_launch *launch)
{
    static const weft_dtype dtypes[WEFT__ADAPTER_DTYPES] = {WEFT_F32, WEFT_F16, WEFT_BF16};
    const weft_experts_desc *desc = plan->desc;
    for (int i = 0; desc->adapter_rank && i < WEFT__ADAPTER_DTYPES; i++) {
        struct weft__linear_launch found;
        const weft_linear_desc linear = {
            .size = sizeof linear,
            .flags = WEFT_LINEAR_EXACT,
            .max_batch = 1,
            .cols = desc->cols,
            .num_parts = 1,
            .parts = {{.weight_dtype = dtypes[i], .rows = desc->adapter_rank}}};
        weft_status status = take_launch(plan, &linear, &found);
        if (status != WEFT_OK)
            return status;
        launch->adapters[i] = found.parts[0].kernels[0];
        const int64_t step = launch->adapters[i]->row_step;
        launch->inner_step = step > launch->inner_step ? step : launch->inner_step;
        launch->down_step = step > launch->down_step ? step : launch->down_step;
    }
    return WEFT_OK;
}

static int64_t step_of(const struct weft__linear_launch *launch, int32_t parts)
{
    int64_t step = 1;
    for (int32_t p = 0; p < parts; p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        if (packed && packed->row_step > step)
            step = packed->row_step;
        for (int32_t i = 0; i < launch->parts[p].num_kernels; i++)
            step = launch->parts[p].kernels[i]->row_step > step
                       ? launch->parts[p].kernels[i]->row_step
                       : step; // powers of two
    }
    return step;
}

// Packed, every expert has whole panels; all parts are packed, or none.
static void settle_packed(const weft_experts_desc *desc, struct weft__experts_launch *launch)
{
    struct weft__linear_part_launch *parts[] = {&launch->inner.parts[0], &launch->inner.parts[1],
                                                &launch->down.parts[0]};
    bool packs = desc->inner % WEFT__PACKED_ROWS == 0 && desc->cols % WEFT__PACKED_ROWS == 0;
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        packs = packs && parts[p]->packed;
    for (int p = 0; p < WEFT_EXPERTS_PARTS && !packs; p++)
        parts[p]->packed = NULL;
}

const struct weft__linear_kernel *weft__cpu_experts_packed(const weft_plan *plan, int32_t part)
{
    const struct weft__experts_launch *launch = plan->launch;
    const weft_experts_desc *desc = plan->desc;
    if (desc->flags & WEFT_EXPERTS_PLAIN && part == WEFT_EXPERTS_UP)
        return NULL;
    return part == WEFT_EXPERTS_DOWN ? launch->down.parts[0].packed
                                     : launch->inner.parts[part].packed;
}

// Room for `count` items of `bytes` bytes; -1 if it does not fit, then and from then on.
static int64_t take(int64_t *at, int64_t count, int64_t bytes)
{
    int64_t offset = *at, size;
    if (offset < 0 || !weft__mul_i64(count, bytes, &size) || size > INT64_MAX / 4 - offset)
        return *at = -1;
    *at = weft__align_up(offset + size, WEFT__ALIGN);
    return offset;
}

// Room for `rows` rows in the forms that a layer reads besides f32.
static struct weft__experts_rows take_rows(int64_t *at, const struct weft__linear_launch *launch,
                                           int64_t cols, int64_t rows)
{
    struct weft__experts_rows room = {-1, -1, -1};
    if (launch->rounds)
        room.rounded = take(at, rows, launch->x_layout.row_bytes);
    if (launch->narrow)
        room.bf16 = take(at, rows, 2 * weft__linear_bf16_stride(cols));
    return room;
}

static weft_status lay_out(weft_plan *plan, struct weft__experts_launch *launch)
{
    const weft_experts_desc *desc = plan->desc;
    int64_t at = 0, tokens = desc->max_batch, choices = tokens * desc->top_k;
    launch->tokens = take_rows(&at, &launch->inner, desc->cols, tokens);
    launch->chosen = take_rows(&at, &launch->inner, desc->cols, choices);
    launch->between = take_rows(&at, &launch->down, desc->inner, choices);
    if (launch->inner.norm.kernel || desc->x_dtype != WEFT_F32)
        launch->tokens.f32 = take(&at, desc->cols, 4 * tokens);
    if (launch->inner_f32)
        launch->chosen.f32 = take(&at, desc->cols, 4 * choices);
    launch->between.f32 = take(&at, desc->inner, 4 * choices);
    launch->up = take(&at, desc->inner, 4 * choices);
    launch->results = take(&at, desc->cols, 4 * choices);
    launch->sums = desc->y_dtype == WEFT_F32 ? -1 : take(&at, desc->cols, 4 * tokens);
    launch->places = take(&at, choices, sizeof(int32_t));
    launch->factors =
        desc->flags & WEFT_EXPERTS_WEIGH_INPUT ? take(&at, choices, sizeof(float)) : -1;
    if (at < 0)
        return weft__fail(plan->context, WEFT_EOVERFLOW,
                          "experts: rows of max_batch * top_k do not fit");
    plan->workspace_bytes = (size_t)at;
    return WEFT_OK;
}

static void describe(weft_plan *plan, const struct weft__experts_launch *launch)
{
    const weft_experts_desc *desc = plan->desc;
    int64_t choices = (int64_t)desc->max_batch * desc->top_k;
    int64_t chosen = choices < desc->experts ? choices : desc->experts;
    const struct weft__linear_kernel *packed = launch->down.parts[0].packed;
    int64_t x_bytes = weft__plan_bytes(desc->x_dtype, desc->max_batch, desc->cols);
    plan->info = (weft_plan_info){
        .splits = 1,
        .tasks = weft__ceil_div(chosen * desc->cols, launch->down_step),
        .tile_rows = launch->down_step,
        .bytes_read = weft__mul_saturated(launch->expert_bytes, chosen) + x_bytes,
        .bytes_written = weft__plan_bytes(desc->y_dtype, desc->max_batch, desc->cols),
        .kernel = launch->kernel->base.name};
    snprintf(
        plan->description, sizeof plan->description,
        "experts %d of %d, %s %s %s, %lldx%lld batch<=%d: %s, %s, %s%s%s; at most %lld of %lld "
        "bytes of weights read",
        desc->top_k, desc->experts, weft_dtype_name(desc->parts[0].weight_dtype),
        weft_dtype_name(desc->parts[1].weight_dtype), weft_dtype_name(desc->parts[2].weight_dtype),
        (long long)desc->inner, (long long)desc->cols, desc->max_batch,
        launch->inner.parts[0].kernels[0]->base.name, launch->down.parts[0].kernels[0]->base.name,
        launch->kernel->base.name, packed ? ", packed " : "", packed ? packed->base.name : "",
        (long long)weft__mul_saturated(launch->expert_bytes, chosen),
        (long long)weft__mul_saturated(launch->expert_bytes, desc->experts));
}

weft__prepare_fn weft__cpu_prepare_experts;
weft_status weft__cpu_prepare_experts(weft_plan *plan)
{
    const weft_experts_desc *desc = plan->desc;
    struct weft__experts_launch *launch;
    if (desc->flags & (WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT))
        return weft__fail(plan->context, WEFT_EUNSUPPORTED,
                          "experts: on the CPU x and y are numbers: rounding is no launch there");
    weft_status status = weft__plan_launch(plan, sizeof *launch, desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    launch = plan->launch;
    launch->inner_desc = weft__plan_experts_inner(desc);
    launch->down_desc = weft__plan_experts_down(desc);
    status = take_launch(plan, &launch->inner_desc, &launch->inner);
    if (status == WEFT_OK)
        status = take_launch(plan, &launch->down_desc, &launch->down);
    if (status != WEFT_OK)
        return status;
    settle_packed(desc, launch);
    launch->inner_f32 = weft__cpu_linear_reads_f32(&launch->inner, 2);
    launch->inner_step = step_of(&launch->inner, 2);
    launch->down_step = step_of(&launch->down, 1);
    // Of plain experts the first of two like products is done.
    launch->expert_bytes =
        launch->inner.bytes / (desc->flags & WEFT_EXPERTS_PLAIN ? 2 : 1) + launch->down.bytes;
    status = plan_adapters(plan, launch);
    if (status == WEFT_OK)
        status = lay_out(plan, launch);
    if (status == WEFT_OK)
        describe(plan, launch);
    return status;
}
