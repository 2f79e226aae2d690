// SPDX-License-Identifier: MIT
// What follows a product of a linear layer: function, residual, narrowing, rounding, the next layer's input.
#include "src/backend/cpu/cpu_linear_run.h"
#include "src/kernels/element.h"

// Adds columns [r0, r1) of row m of the residual.
static void add_residual(const struct weft__cpu_linear_work *work, int32_t m, int64_t r0,
                         int64_t r1, float *value)
{
    const weft_linear_args *args = work->args;
    for (int64_t r = r0; args->residual && r < r1; r++)
        value[r - r0] +=
            weft__element_load(args->residual, work->desc->y_dtype, m * args->residual_stride + r);
}

// Rounds columns [r0, r1) of a row of results, r0 a multiple of WEFT__ROUNDED_STEP.
static void round_result(const struct weft__cpu_linear_work *work, void *buffer, int32_t m,
                         int64_t r0, int64_t r1, const float *value)
{
    const struct weft__rounded to = {work->launch->y_layout, buffer};
    struct weft__rounded_row row = weft__rounded_row(&to, m);
    int64_t end = r1 == work->desc->parts[0].rows ? to.at.stride : r1;
    work->launch->round(&row, r0, end, value, r1 - r0, row.head->few);
}

// Eight sums side by side: one alone would wait four clocks for each addition.
static double sum_of_squares(const float *x, int64_t n)
{
    enum { SUMS = 8 };
    double sum[SUMS] = {0};
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++)
            sum[j] += (double)x[i + j] * x[i + j];
    for (; i < n; i++)
        sum[0] += (double)x[i] * x[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

// y * weights of the next norm, rounded, and the sums of squares of y.
static void emit_next_row(const struct weft__cpu_linear_work *work, int32_t m, int64_t r0,
                          int64_t r1)
{
    const weft_linear_args *args = work->args;
    const struct weft__rounded to = {work->launch->y_layout, args->next};
    struct weft__rounded_row row = weft__rounded_row(&to, m);
    const weft_linear_part_args *part = &args->parts[0];
    const float plus = work->desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f;
    for (int64_t r = r0; r < r1; r += WEFT__ROUNDED_STEP) {
        int64_t n = r1 - r < WEFT__ROUNDED_STEP ? r1 - r : WEFT__ROUNDED_STEP;
        float value[WEFT__ROUNDED_STEP];
        weft_dtype dtype = work->desc->y_dtype;
        weft__elements_widen(weft__element_at(part->y, dtype, m * part->y_stride + r), dtype, n,
                             value);
        row.squares[r / WEFT__ROUNDED_STEP] = sum_of_squares(value, n);
        for (int64_t i = 0; args->next_weight && i < n; i++)
            value[i] *= args->next_weight[r + i] + plus;
        round_result(work, args->next, m, r, r + n, value);
    }
}

void weft__cpu_linear_emit_next(const struct weft__cpu_linear_work *work,
                                struct weft__cpu_linear_range at)
{
    for (int32_t m = at.m0; m < at.m1 && work->desc->flags & WEFT_LINEAR_NEXT; m++)
        emit_next_row(work, m, at.r0, at.r1);
}

// The function of a block of results, which may be none, and the format of y.
static void apply_function(const struct weft__cpu_linear_work *work, int32_t p,
                           struct weft__cpu_linear_range at,
                           const struct weft__cpu_linear_stage *stage, bool into_y)
{
    struct weft__activation_launch function = work->launch->activation;
    const weft_linear_part_args *part = &work->args->parts[p];
    const weft_activation_args args = {
        .x = stage->results[0],
        .x_stride = stage->stride,
        .up = weft__linear_together(work->desc) > 1 ? stage->results[1] : NULL,
        .up_stride = stage->stride,
        .y = into_y ? weft__element_to(part->y, work->desc->y_dtype, at.m0 * part->y_stride + at.r0)
                    : stage->results[0],
        .y_stride = into_y ? part->y_stride : stage->stride};
    function.dim = at.r1 - at.r0;
    function.y_dtype = into_y ? work->desc->y_dtype : WEFT_F32;
    function.kernel->run(&function, &args, 0, at.m1 - at.m0);
}

void weft__cpu_linear_finish(const struct weft__cpu_linear_work *work, int32_t p,
                             struct weft__cpu_linear_range at,
                             const struct weft__cpu_linear_stage *stage)
{
    const weft_linear_args *args = work->args;
    const bool rounds = work->desc->flags & WEFT_LINEAR_Y_ROUNDED;
    const bool narrows = work->desc->y_dtype != WEFT_F32; // which reference kernels do not
    const bool into_y = !rounds && !args->residual &&
                        !(narrows && work->launch->activation.kernel->base.level == WEFT__ISA_ref);
    if (into_y || work->desc->gate)
        apply_function(work, p, at, stage, into_y);
    for (int32_t m = at.m0; m < at.m1 && !into_y; m++) {
        float *value = stage->results[0] + (m - at.m0) * stage->stride;
        const weft_linear_part_args *part = &args->parts[p];
        const weft_dtype dtype = work->desc->y_dtype;
        add_residual(work, m, at.r0, at.r1, value);
        if (rounds)
            round_result(work, part->y, m, at.r0, at.r1, value);
        else
            weft__elements_narrow(value, at.r1 - at.r0,
                                  weft__element_to(part->y, dtype, m * part->y_stride + at.r0),
                                  dtype);
    }
    weft__cpu_linear_emit_next(work, at);
}

void weft__cpu_linear_begin_results(const struct weft__cpu_linear_work *work)
{
    const weft_linear_desc *desc = work->desc;
    bool few = work->args->batch <= WEFT__FEW_ROWS || desc->flags & WEFT_LINEAR_BATCH_INVARIANT;
    bool next = desc->flags & WEFT_LINEAR_NEXT;
    struct weft__rounded to = {work->launch->y_layout,
                               next ? work->args->next : work->args->parts[0].y};
    if (next || desc->flags & WEFT_LINEAR_Y_ROUNDED)
        for (int32_t m = 0; m < work->args->batch; m++)
            weft__rounded_begin(&to, m, desc->parts[0].rows, few, next);
}
