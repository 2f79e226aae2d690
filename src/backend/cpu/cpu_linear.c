// SPDX-License-Identifier: MIT
// Spreads a linear layer over threads: first the rows of X are quantised, then the rows of W are
// multiplied.
#include "src/backend/context.h"
#include "src/base/checked.h"
#include "src/kernels/linear/linear_kernel.h"

struct work {
    const struct weft__linear_launch *launch;
    struct weft__linear_call call;
    int64_t rows_per_task;
};

static void quantize_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    (void)thread;
    work->launch->kernel->quantize(&work->call, index, index + 1);
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

static struct weft__q8_acts place_acts(const struct weft__linear_launch *launch, void *workspace)
{
    unsigned char *base = workspace;
    return (struct weft__q8_acts){.layout = launch->kernel->layout,
                                  .stride = launch->acts_stride,
                                  .q = (void *)base,
                                  .scale = (void *)(base + launch->scale_offset),
                                  .sum = base + launch->sum_offset};
}

// Rounding a row costs a thousandth of multiplying by it: a few rows are not worth a parallel region.
static void quantize(const weft_context *context, struct work *work, bool alone)
{
    if (alone || work->call.batch <= WEFT__FEW_ROWS)
        work->launch->kernel->quantize(&work->call, 0, work->call.batch);
    else
        weft__parallel_for(context, work->call.batch, quantize_task, work);
}

weft__submit_fn weft__cpu_submit_linear;
weft_status weft__cpu_submit_linear(const weft_context *context, const void *opaque_launch,
                                    const void *opaque_args)
{
    const struct weft__linear_launch *launch = opaque_launch;
    const weft_linear_args *args = opaque_args;
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
    if (launch->kernel->quantize) {
        work.call.acts = place_acts(launch, args->workspace);
        quantize(context, &work, alone);
    }
    work.rows_per_task =
        args->batch > WEFT__FEW_ROWS ? launch->rows_per_batch_task : launch->rows_per_task;
    if (alone)
        launch->kernel->run(&work.call, 0, launch->rows);
    else
        weft__parallel_for(context, (int32_t)weft__ceil_div(launch->rows, work.rows_per_task),
                           multiply_task, &work);
    return WEFT_OK;
}
