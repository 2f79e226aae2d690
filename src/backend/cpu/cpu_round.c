// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <string.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_kernel.h"

struct launch {
    const struct weft__round_kernel *kernel;
    struct weft__rounded_layout layout;
    const weft_round_desc *desc;
};

static bool serves(const struct weft__kernel *row, const void *desc)
{
    (void)row;
    (void)desc;
    return true;
}

weft__prepare_fn weft__cpu_prepare_round;
weft_status weft__cpu_prepare_round(weft_plan *plan)
{
    const weft_round_desc *desc = plan->desc;
    weft_status status = weft__plan_launch(plan, sizeof(struct launch), desc->variant, serves);
    if (status != WEFT_OK)
        return status;
    struct launch *launch = plan->launch;
    launch->desc = desc;
    bool few = weft__rounded_has_few(weft__cpu_of(plan->context)->isa_mask);
    if (!weft__rounded_lay_out(desc->cols, few, &launch->layout))
        return weft__fail(plan->context, WEFT_EOVERFLOW, "round: cols does not fit");
    snprintf(plan->description, sizeof plan->description, "round %lld columns rows<=%d: %s",
             (long long)desc->cols, desc->max_rows, launch->kernel->base.name);
    return WEFT_OK;
}

int64_t weft__cpu_rounded_row_bytes(const weft_context *context, int64_t cols)
{
    struct weft__rounded_layout layout;
    bool few = weft__rounded_has_few(weft__cpu_of(context)->isa_mask);
    return weft__rounded_lay_out(cols, few, &layout) ? layout.row_bytes : 0;
}

static void round_row(const struct launch *launch, const weft_round_args *args, int64_t row)
{
    const weft_round_desc *desc = launch->desc;
    const struct weft__rounded to = {launch->layout, args->rounded};
    struct weft__rounded_row at = weft__rounded_row(&to, row);
    bool few = args->rows <= WEFT__FEW_ROWS || desc->flags & WEFT_LINEAR_BATCH_INVARIANT;
    weft__rounded_begin(&to, row, desc->cols, few, false);
    for (int64_t k = 0; k < to.at.stride; k += WEFT__ROUNDED_STEP) {
        float x[WEFT__ROUNDED_STEP];
        int64_t left = desc->cols - k;
        int64_t n = left < 0 ? 0 : left < WEFT__ROUNDED_STEP ? left : WEFT__ROUNDED_STEP;
        weft__elements_widen(weft__element_at(args->x, desc->x_dtype, row * args->x_stride + k),
                             desc->x_dtype, n, x);
        launch->kernel->run(&at, k, k + WEFT__ROUNDED_STEP, x, n, at.head->few);
    }
}

static void run(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    (void)thread;
    for (int64_t row = row0; row < row1; row++)
        round_row(work->launch, work->args, row);
}

weft__submit_fn weft__cpu_submit_round;
weft_status weft__cpu_submit_round(const weft_plan *plan, const void *opaque_args,
                                   weft_stream *stream)
{
    const struct launch *launch = plan->launch;
    const weft_round_args *args = opaque_args;
    (void)stream;
    weft__cpu_spread_rows(plan->context, args->rows, weft__plan_rows_per_task(launch->desc->cols),
                          run, &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}
