// SPDX-License-Identifier: MIT
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/element.h"

static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__activation_kernel *kernel = (const void *)row;
    const weft_activation_desc *desc = opaque_desc;
    return kernel->kind == desc->kind;
}

weft__prepare_fn weft__cpu_prepare_activation;
weft_status weft__cpu_prepare_activation(weft_plan *plan)
{
    const weft_activation_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__activation_launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct weft__activation_launch *launch = plan->launch;
    launch->dim = desc->dim;
    launch->x_dtype = desc->x_dtype;
    launch->y_dtype = desc->y_dtype;
    launch->rows_per_task = weft__plan_rows_per_task(desc->dim);
    snprintf(plan->description, sizeof plan->description, "activation dim %lld rows<=%d: %s",
             (long long)desc->dim, desc->max_rows, launch->kernel->base.name);
    weft__cpu_rows_info(plan, &launch->kernel->base, desc->max_rows, launch->rows_per_task,
                        2 * weft__plan_bytes(desc->x_dtype, desc->max_rows, desc->dim), // x and up
                        weft__plan_bytes(desc->y_dtype, desc->max_rows, desc->dim));
    return WEFT_OK;
}

// Elements of other formats become f32 and back a piece at a time.
static void run_row(const struct weft__activation_launch *launch, const weft_activation_args *args,
                    int64_t row)
{
    enum { PIECE = 256 };
    float x[PIECE], up[PIECE];
    struct weft__activation_launch piece = *launch;
    weft_activation_args own = {.x = x, .up = args->up ? up : NULL, .y = x};
    weft_dtype dtype = launch->x_dtype;
    for (int64_t i = 0; i < launch->dim; i += PIECE) {
        piece.dim = launch->dim - i < PIECE ? launch->dim - i : PIECE;
        int64_t x_at = row * args->x_stride + i, up_at = row * args->up_stride + i;
        weft__elements_widen(weft__element_at(args->x, dtype, x_at), dtype, piece.dim, x);
        if (args->up)
            weft__elements_widen(weft__element_at(args->up, dtype, up_at), dtype, piece.dim, up);
        launch->kernel->run(&piece, &own, 0, 1);
        void *y = weft__element_to(args->y, launch->y_dtype, row * args->y_stride + i);
        weft__elements_narrow(x, piece.dim, y, launch->y_dtype);
    }
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__activation_launch *launch = work->launch;
    (void)thread;
    if (launch->x_dtype == WEFT_F32 && launch->y_dtype == WEFT_F32) {
        launch->kernel->run(launch, work->args, row0, row1);
        return;
    }
    for (int64_t row = row0; row < row1; row++)
        run_row(launch, work->args, row);
}

weft__submit_fn weft__cpu_submit_activation;
weft_status weft__cpu_submit_activation(const weft_plan *plan, const void *opaque_args,
                                        weft_stream *stream)
{
    const struct weft__activation_launch *launch = plan->launch;
    const weft_activation_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->rows, launch->rows_per_task, run,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
