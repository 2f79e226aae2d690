// SPDX-License-Identifier: MIT
// Plans of linear layers: how rows of the parts are cut, what follows them, what the workspace holds. Which kernels serve:
// cpu_linear_choose.c.
#include "src/backend/cpu/cpu_linear.h"

#include <stdio.h>

#include "src/base/checked.h"
#include "src/base/memory.h"

// Rows of both parts of a gate are done by the same task; results that are rounded come in whole steps.
static void split_parts(weft_plan *plan)
{
    enum { TILE_TASKS = 8 };
    const weft_linear_desc *desc = plan->desc;
    struct weft__linear_launch *launch = plan->launch;
    int32_t threads = weft__cpu_of(plan->context)->threads;
    bool in_steps = desc->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT);
    int64_t bytes[WEFT_LINEAR_MAX_PARTS], few = in_steps ? WEFT__ROUNDED_STEP : 1, many = few;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        bytes[p] = weft_dtype_row_bytes(desc->parts[p].weight_dtype, desc->cols);
        const struct weft__linear_part_launch *part = &launch->parts[p];
        for (int32_t i = 0; i < part->num_kernels; i++) {
            const int64_t step = part->kernels[i]->row_step; // powers of two
            many = step > many ? step : many;
            if ((i == 0 || part->max_batch[i - 1] < WEFT__FEW_ROWS) && step > few)
                few = step;
        }
        if (part->packed && part->packed->row_step > few)
            few = part->packed->row_step;
        many = few > many ? few : many;
        launch->bytes += bytes[p] * desc->parts[p].rows;
    }
    launch->stage_step = many;
    launch->stage_wanted = WEFT__STAGE_FLOATS;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        const struct weft__linear_kernel *tiled =
            packed ? packed : launch->parts[p].kernels[launch->parts[p].num_kernels - 1];
        weft_tuning tuned = weft__cpu_linear_tuned(plan, p);
        // Tiles take X from the third cache for each task anew: fewer tasks.
        if (tiled->base.level == WEFT__ISA_amx) {
            launch->stage_wanted = WEFT__STAGE_TILED;
            if (tuned.tasks_per_thread > TILE_TASKS)
                tuned.tasks_per_thread = TILE_TASKS;
        }
        launch->parts[p].split = weft__plan_linear_split(
            desc->parts[p].rows, weft__linear_together(desc) > 1 ? bytes[0] + bytes[1] : bytes[p],
            few, many, threads, &tuned);
    }
}

// The first row of the table of an operation that this context may use and that `fits` the kind.
static const void *first_row(const weft_context *context, enum weft__op op,
                             bool (*fits)(const void *row, int kind), int kind)
{
    const struct weft__kernel_table *table = context->backend->tables[op];
    const char *row = table->rows;
    while (!weft__cpu_fits((const void *)row, weft__cpu_of(context)->isa_mask) || !fits(row, kind))
        row += table->row_bytes;
    return row;
}

static bool norm_fits(const void *row, int kind)
{
    return ((const struct weft__norm_kernel *)row)->kind == (weft_norm_kind)kind;
}

static bool activation_fits(const void *row, int kind)
{
    return ((const struct weft__activation_kernel *)row)->kind == (weft_activation_kind)kind;
}

// Without a gate it converts.
static struct weft__activation_launch function_of(const weft_plan *plan, weft_linear_gate gate,
                                                  weft_dtype x_dtype)
{
    const weft_activation_kind kind =
        gate ? (weft_activation_kind)((int)gate - WEFT_LINEAR_GATE_SILU + WEFT_ACTIVATION_SILU)
             : WEFT_ACTIVATION_NONE;
    return (struct weft__activation_launch){
        .kernel = first_row(plan->context, WEFT__OP_activation, activation_fits, (int)kind),
        .dim = ((const weft_linear_desc *)plan->desc)->cols,
        .x_dtype = x_dtype,
        .y_dtype = WEFT_F32};
}

static void choose_norm_and_functions(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    struct weft__linear_launch *launch = plan->launch;
    const bool x_rounded = desc->flags & WEFT_LINEAR_X_ROUNDED;
    if (desc->norm && !x_rounded)
        launch->norm = (struct weft__norm_launch){
            .kernel =
                first_row(plan->context, WEFT__OP_norm, norm_fits,
                          desc->norm == WEFT_LINEAR_NORM_RMS ? WEFT_NORM_RMS : WEFT_NORM_LAYER),
            .dim = desc->cols,
            .eps = desc->norm_eps,
            .x_dtype = WEFT_F32,
            .y_dtype = WEFT_F32,
            .weight_dtype = WEFT_F32,
            .weight_offset = desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f};
    launch->activation = function_of(plan, desc->gate, WEFT_F32);
    if (desc->x_gate || (!x_rounded && desc->x_dtype != WEFT_F32))
        launch->widen = function_of(plan, desc->x_gate, desc->x_dtype);
}

// Room for `count` items of `bytes` bytes; -1 if it does not fit.
static int64_t take(int64_t *at, int64_t count, int64_t bytes)
{
    int64_t offset = *at, size;
    if (offset < 0 || !weft__mul_i64(count, bytes, &size) || size > INT64_MAX / 4 - offset)
        return *at = -1;
    *at = weft__align_up(offset + size, WEFT__ALIGN);
    return offset;
}

// Results of a block: a step of rows of W by all rows of X, or enough for a task of a few rows of X, if there
// are so many.
static int64_t stage_floats(const weft_linear_desc *desc, const struct weft__linear_launch *launch)
{
    const int64_t step = launch->stage_step;
    int64_t rows = weft__ceil_div(launch->stage_wanted, desc->max_batch), most = 0;
    for (int32_t p = 0; p < desc->num_parts; p++)
        most = desc->parts[p].rows > most ? desc->parts[p].rows : most;
    rows = weft__align_up(rows < most ? rows : most, step);
    return rows * desc->max_batch;
}

// Does a kernel of any part multiply so many rows of X as tiles of bf16?
static bool lays(const weft_linear_desc *desc, const struct weft__linear_launch *launch)
{
    if (desc->flags & WEFT_LINEAR_BATCH_INVARIANT || desc->cols > WEFT__LAY_LONGEST)
        return false;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        if (packed && packed->lay && desc->max_batch >= packed->lay_batch)
            return true;
    }
    return false;
}

// What kernels that take tiles want of a thread's memory.
static int64_t room_bytes(const weft_linear_desc *desc, const struct weft__linear_launch *launch)
{
    int64_t most = 0;
    for (int32_t p = 0; p < desc->num_parts && lays(desc, launch); p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        const int64_t bytes = packed && packed->lay ? packed->lay->room_bytes : 0;
        most = bytes > most ? bytes : most;
    }
    return weft__align_up(most, WEFT__ALIGN);
}

static weft_status lay_out_workspace(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    struct weft__linear_launch *launch = plan->launch;
    bool few = weft__rounded_has_few(weft__cpu_of(plan->context)->isa_mask);
    const int64_t threads = weft__cpu_of(plan->context)->threads;
    const bool readies = launch->norm.kernel || launch->widen.kernel;
    int64_t at = 0, batch = desc->max_batch;
    launch->together = launch->narrow && launch->turned ? launch->turned : 1;
    launch->x_offset = readies && weft__cpu_linear_reads_f32(launch, desc->num_parts)
                           ? take(&at, desc->cols, 4 * batch)
                           : -1;
    launch->own_rows = lays(desc, launch) ? WEFT__BF16_ROWS : launch->together;
    launch->ready_offset = readies ? take(&at, desc->cols, 4 * threads * launch->own_rows) : -1;
    bool fit = weft__rounded_lay_out(desc->cols, few, &launch->x_layout) &&
               weft__rounded_lay_out(desc->parts[0].rows, few, &launch->y_layout);
    if (fit && launch->rounds)
        launch->rounded_offset = take(&at, launch->x_layout.row_bytes, batch);
    if (launch->narrow)
        launch->bf16_offset =
            take(&at, weft__linear_bf16_stride(desc->cols), 2 * (batch + WEFT__BF16_ROWS - 1));
    launch->tiles_offset = lays(desc, launch) ? take(&at, weft__linear_bf16_stride(desc->cols),
                                                     2 * weft__align_up(batch, WEFT__BF16_ROWS))
                                              : -1;
    launch->room_bytes = room_bytes(desc, launch);
    launch->room_offset = take(&at, launch->room_bytes, threads);
    launch->scale_offset =
        desc->flags & WEFT_LINEAR_X_ROUNDED && desc->norm ? take(&at, batch, sizeof(float)) : -1;
    if (desc->gate || desc->y_dtype != WEFT_F32 || desc->flags & WEFT_LINEAR_Y_ROUNDED) {
        launch->stage_floats = stage_floats(desc, launch);
        launch->stage_offset =
            take(&at, launch->stage_floats, 4 * threads * weft__linear_together(desc));
    }
    if (!fit || at < 0)
        return weft__fail(plan->context, WEFT_EOVERFLOW, "cols * max_batch does not fit");
    plan->workspace_bytes = (size_t)at;
    return WEFT_OK;
}

static void describe(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    const struct weft__linear_launch *launch = plan->launch;
    const struct weft__linear_kernel *const *kernels = launch->parts[0].kernels;
    char *text = plan->description;
    size_t room = sizeof plan->description, at = 0;
    at += (size_t)snprintf(text, room, "linear");
    for (int32_t p = 0; p < desc->num_parts && at < room; p++)
        at += (size_t)snprintf(text + at, room - at, "%s %s %lldx%lld", p ? "," : "",
                               weft_dtype_name(desc->parts[p].weight_dtype),
                               (long long)desc->parts[p].rows, (long long)desc->cols);
    if (at < room)
        at += (size_t)snprintf(text + at, room - at, " batch<=%d: %s", desc->max_batch,
                               kernels[0]->base.name);
    for (int32_t i = 1; i < launch->parts[0].num_kernels && at < room; i++)
        if (launch->parts[0].max_batch[i - 1] < desc->max_batch)
            at += (size_t)snprintf(text + at, room - at, ", from %d %s",
                                   launch->parts[0].max_batch[i - 1] + 1, kernels[i]->base.name);
    if (at < room && launch->parts[0].packed_few)
        at += (size_t)snprintf(text + at, room - at, ", packed %s",
                               launch->parts[0].packed_few->base.name);
    if (at < room && launch->parts[0].packed &&
        weft__linear_packed_for(&launch->parts[0], desc->max_batch) == launch->parts[0].packed)
        at += (size_t)snprintf(text + at, room - at, ", %s %s",
                               launch->parts[0].packed_few ? "then" : "packed",
                               launch->parts[0].packed->base.name);
    if (at < room)
        snprintf(text + at, room - at, ", %lld rows per task",
                 (long long)launch->parts[0].split.rows_per_task);
}

// What all parts round X to, of max_batch rows.
static weft_dtype rounds_x_to(const weft_linear_desc *desc,
                              const struct weft__linear_launch *launch)
{
    enum weft__linear_acts acts = launch->kernel->acts;
    for (int32_t p = 1; p < desc->num_parts; p++)
        if (weft__linear_kernel_for(&launch->parts[p], desc->max_batch, true)->acts != acts)
            acts = WEFT__ACTS_f32;
    return acts == WEFT__ACTS_q8 ? WEFT_INT8 : acts == WEFT__ACTS_bf16 ? WEFT_BF16 : WEFT_F32;
}

// The fewest rows of X that tiles of bf16 multiply by a part's packed blocks, 0 if none do.
static int32_t packed_bf16_batch(const weft_linear_desc *desc,
                                 const struct weft__linear_launch *launch)
{
    int32_t least = 0;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        if (packed && packed->lay && launch->tiles_offset >= 0 &&
            (!least || packed->lay_batch < least))
            least = packed->lay_batch;
    }
    return least;
}

static void inform(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    const struct weft__linear_launch *launch = plan->launch;
    int64_t batch = desc->max_batch, rows = 0;
    bool alone = weft__plan_linear_alone(launch->bytes, desc->max_batch,
                                         weft__cpu_of(plan->context)->threads);
    plan->info = (weft_plan_info){.splits = 1, .kernel = launch->kernel->base.name};
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_split *split = &launch->parts[p].split;
        int64_t part = desc->parts[p].rows;
        int64_t tile = batch > WEFT__FEW_ROWS ? split->rows_per_batch_task : split->rows_per_task;
        rows += part;
        if (desc->gate && p == 1)
            continue; // its tasks are the first part's
        plan->info.tasks += alone ? 1 : weft__ceil_div(part, tile);
        if (p == 0)
            plan->info.tile_rows = alone || tile > part ? part : tile;
    }
    plan->info.rounds_x_to = rounds_x_to(desc, launch);
    plan->info.packed_bf16_batch = packed_bf16_batch(desc, launch);
    if (launch->parts[0].packed)
        plan->info.packed_kernel =
            weft__linear_packed_for(&launch->parts[0], desc->max_batch)->base.name;
    plan->info.bytes_read =
        launch->bytes + weft__plan_bytes(desc->x_dtype, batch, weft__plan_linear_x_row(desc));
    plan->info.bytes_written =
        weft__plan_bytes(desc->y_dtype, batch, rows / weft__linear_together(desc));
}

weft__prepare_fn weft__cpu_prepare_linear;
weft_status weft__cpu_prepare_linear(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    weft_status status = weft__cpu_linear_choose(plan);
    if (status != WEFT_OK)
        return status;
    struct weft__linear_launch *launch = plan->launch;
    launch->kernel = weft__linear_kernel_for(&launch->parts[0], desc->max_batch, true);
    launch->round = weft__rounder_of(weft__cpu_of(plan->context)->isa_mask);
    split_parts(plan);
    choose_norm_and_functions(plan);
    status = lay_out_workspace(plan);
    if (status == WEFT_OK)
        describe(plan);
    if (status == WEFT_OK)
        inform(plan);
    return status;
}
