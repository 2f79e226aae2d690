// SPDX-License-Identifier: MIT
// Spreads a linear layer over threads: first the rows of X are rounded, then the rows of W are
// multiplied.
#include <stdio.h>

#include "src/backend/cpu/cpu.h"
#include "src/base/checked.h"
#include "src/plan/plan_linear.h"

static bool is_quantised(weft_dtype dtype)
{
    return weft_dtype_block_elems(dtype) > 1;
}

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__linear_kernel *kernel = (const void *)row;
    const weft_linear_desc *desc = opaque_desc;
    bool exact = desc->flags & WEFT_LINEAR_EXACT || !is_quantised(desc->weight_dtype);
    enum weft__linear_acts acts = exact ? WEFT__ACTS_f32 : WEFT__ACTS_q8;
    return kernel->weight == desc->weight_dtype && kernel->acts == acts;
}

weft__prepare_fn weft__cpu_prepare_linear;
weft_status weft__cpu_prepare_linear(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__linear_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__linear_launch *launch = plan->launch;
    launch->rows = desc->rows;
    launch->cols = desc->cols;
    launch->max_batch = desc->max_batch;
    launch->batch_invariant = desc->flags & WEFT_LINEAR_BATCH_INVARIANT;
    weft__plan_linear_split(launch, weft_dtype_row_bytes(desc->weight_dtype, desc->cols),
                            weft__cpu_of(plan->context)->threads);
    if (launch->kernel->acts == WEFT__ACTS_q8) {
        uint32_t isa_mask = weft__cpu_of(plan->context)->isa_mask;
        if (!weft__rounded_plan(desc->max_batch, desc->cols, weft__rounded_has_few(isa_mask),
                                &launch->rounded))
            return weft__fail(plan->context, WEFT_EOVERFLOW, "cols * max_batch does not fit");
        launch->round = weft__rounder_of(isa_mask);
        plan->workspace_bytes = (size_t)launch->rounded.bytes;
    }
    snprintf(plan->description, sizeof plan->description,
             "linear %s %lldx%lld batch<=%d: %s, %lld rows per task",
             weft_dtype_name(desc->weight_dtype), (long long)desc->rows, (long long)desc->cols,
             desc->max_batch, launch->kernel->base.name, (long long)launch->rows_per_task);
    return WEFT_OK;
}

struct work {
    const struct weft__linear_launch *launch;
    struct weft__linear_call call;
    int64_t rows_per_task;
};

static void round_rows(const struct work *work, int32_t row0, int32_t row1)
{
    const struct weft__linear_call *call = &work->call;
    bool few = call->batch <= WEFT__FEW_ROWS || call->batch_invariant;
    for (int32_t m = row0; m < row1; m++)
        work->launch->round(&call->acts, m, call->x + m * call->x_stride, call->cols, few);
}

static void round_task(void *opaque, int32_t index, int32_t thread)
{
    (void)thread;
    round_rows(opaque, index, index + 1);
}

static void multiply_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int64_t row0 = index * work->rows_per_task;
    int64_t row1 = row0 + work->rows_per_task;
    (void)thread;
    work->launch->kernel->run(&work->call, row0,
                              row1 < work->launch->rows ? row1 : work->launch->rows);
}

// Rounding a row costs a thousandth of multiplying by it: a few rows are not worth a parallel region.
static void round_batch(const weft_context *context, struct work *work, bool alone)
{
    if (alone || work->call.batch <= WEFT__FEW_ROWS)
        round_rows(work, 0, work->call.batch);
    else
        weft__cpu_parallel_for(context, work->call.batch, round_task, work);
}

weft__submit_fn weft__cpu_submit_linear;
weft_status weft__cpu_submit_linear(const weft_plan *plan, const void *opaque_args,
                                    weft_stream *stream)
{
    const struct weft__linear_launch *launch = plan->launch;
    const weft_linear_args *args = opaque_args;
    (void)stream;
    struct work work = {
        .launch = launch,
        .call = {.weight = args->weight,
                 .weight_stride_bytes = args->weight_stride_bytes,
                 .rows = launch->rows,
                 .cols = launch->cols,
                 .batch = args->batch,
                 .batch_invariant = launch->batch_invariant,
                 .alpha = args->alpha,
                 .x = args->x,
                 .x_stride = args->x_stride,
                 .y = args->y,
                 .y_stride = args->y_stride,
                 .bias = args->bias,
                 .residual = args->residual,
                 .residual_stride = args->residual_stride},
    };
    bool alone = launch->rows <= launch->alone_rows / args->batch;
    if (launch->round) {
        work.call.acts = weft__rounded_place(&launch->rounded, args->workspace);
        round_batch(plan->context, &work, alone);
    }
    work.rows_per_task =
        args->batch > WEFT__FEW_ROWS ? launch->rows_per_batch_task : launch->rows_per_task;
    if (alone)
        launch->kernel->run(&work.call, 0, launch->rows);
    else
        weft__cpu_parallel_for(plan->context,
                               (int32_t)weft__ceil_div(launch->rows, work.rows_per_task),
                               multiply_task, &work);
    return WEFT_OK;
}
