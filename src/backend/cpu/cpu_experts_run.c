// SPDX-License-Identifier: MIT
// Runs over experts, at most six parallel regions:
//
//   tokens      widening, norm, rounding: once a token
//   choices     rows of experts that several tokens go to are copied together; a token alone is read where
//               it is
//   inner       gate, up and the function, in pieces of one expert's rows
//   between     rounding again
//   down        in pieces of one expert's rows
//   tokens      the sum over a token's experts, in the order of its choices
//
// What has few rows is done by the calling thread. Few choices, as those of a token that is decoded, have
// inner, between, down and the sum in one region: who finishes the last piece of an expert's inner rows rounds
// its row, and who finishes the last expert's piece of down's rows sums these columns. The threads walk through
// the experts side by side, so what a piece waits for has long been done:
//
//      thread 0   e0 e1 e2 .. | e0 e1 e2 .. sum       a piece of each expert, of gate and up, then of down
//      thread 1   e0 e1 e2 .. | e0 e1 e2 .. sum
#include <sched.h>

#include "src/backend/cpu/cpu_experts_work.h"
#include "src/backend/cpu/cpu_pool.h"
#include "src/backend/cpu/cpu_stream.h"
#include "src/base/checked.h"
#include "src/kernels/element.h"
#include "src/plan/plan_experts.h"

enum {
    TASKS_A_THREAD =
        8, // fewer, and a thread waits for the other's last one; more, and memory begins new streams too often
    SPINS = 4000 // before a thread that waits yields
};

// Row m of `rows` in the forms that a layer's kernels read.
static void ready_row(const struct weft__experts_work *work,
                      const struct weft__linear_launch *launch,
                      const struct weft__experts_rows *rows, const float *x, int64_t cols,
                      int64_t m)
{
    if (rows->rounded >= 0) {
        struct weft__rounded to = weft__experts_rounded(work, launch, rows->rounded, m);
        struct weft__rounded_row row = weft__rounded_row(&to, 0);
        weft__rounded_begin(&to, 0, cols, true, false);
        launch->round(&row, 0, launch->x_layout.stride, x, cols, row.head->few);
    }
    if (rows->bf16 >= 0)
        launch->narrow(x, WEFT_F32, cols, 1, cols, (int32_t)m,
                       (uint16_t *)weft__experts_at(work, rows->bf16),
                       weft__linear_bf16_stride(cols));
}

// A token's row in f32, normed.
static const float *token_row(const struct weft__experts_work *work, int64_t token)
{
    const struct weft__norm_launch *norm = &work->launch->inner.norm;
    const weft_dtype dtype = work->desc->x_dtype;
    const void *x = weft__element_at(work->args->x, dtype, token * work->args->x_stride);
    if (work->launch->tokens.f32 < 0)
        return x;
    float *own =
        (float *)weft__experts_at(work, work->launch->tokens.f32) + token * work->desc->cols;
    if (dtype != WEFT_F32) {
        weft__elements_widen(x, dtype, work->desc->cols, own);
        x = own;
    }
    const weft_norm_args args = {.x = x, .y = own, .weight = work->args->norm_weight};
    if (norm->kernel)
        norm->kernel->run(norm, &args, 0, 1);
    return own;
}

static void token_task(void *opaque, int32_t token, int32_t thread)
{
    const struct weft__experts_work *work = opaque;
    (void)thread;
    ready_row(work, &work->launch->inner, &work->launch->tokens, token_row(work, token),
              work->desc->cols, token);
}

// Copies the row of a choice's token beside those of its expert's other choices.
static void gather_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__experts_work *work = opaque;
    const struct weft__experts_launch *launch = work->launch;
    const struct weft__experts_rows *from = &launch->tokens, *to = &launch->chosen;
    int64_t cols = work->desc->cols, token = work->args->order[index] / work->desc->top_k;
    int64_t row_bytes = launch->inner.x_layout.row_bytes;
    (void)thread;
    if (to->f32 >= 0)
        memcpy((float *)weft__experts_at(work, to->f32) + index * cols,
               work->x + token * work->x_stride, (size_t)cols * sizeof(float));
    if (to->rounded >= 0)
        memcpy(work->workspace + to->rounded + index * row_bytes,
               work->workspace + from->rounded + token * row_bytes, (size_t)row_bytes);
    if (to->bf16 >= 0)
        memcpy(weft__experts_bf16(work, to->bf16, cols, index),
               weft__experts_bf16(work, from->bf16, cols, token),
               (size_t)weft__linear_bf16_stride(cols) * sizeof(uint16_t));
}

static void between_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__experts_work *work = opaque;
    int64_t inner = work->desc->inner;
    (void)thread;
    ready_row(work, &work->launch->down, &work->launch->between, work->between + index * inner,
              inner, index);
}

static void inner_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__experts_work *work = opaque;
    const int64_t pieces = weft__ceil_div(work->desc->inner, work->inner_rows);
    (void)thread;
    weft__cpu_experts_inner(work, work->experts[index / pieces], index % pieces, -1);
}

static void down_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__experts_work *work = opaque;
    const int64_t pieces = weft__ceil_div(work->desc->cols, work->down_rows);
    (void)thread;
    weft__cpu_experts_down(work, work->experts[index / pieces], index % pieces, -1);
}

// Columns [c0, c1) of a token's sum over its experts.
static void sum_columns(const struct weft__experts_work *work, int32_t token, int64_t c0,
                        int64_t c1)
{
    const weft_experts_args *args = work->args;
    const weft_dtype dtype = work->desc->y_dtype;
    int64_t cols = work->desc->cols;
    int32_t k = work->desc->top_k;
    void *y = weft__element_to(args->y, dtype, token * args->y_stride + c0);
    const void *residual =
        args->residual ? weft__element_at(args->residual, dtype, token * args->residual_stride + c0)
                       : NULL;
    float *row = y;
    if (dtype != WEFT_F32) {
        row = (float *)weft__experts_at(work, work->launch->sums) + token * cols + c0;
        if (residual)
            weft__elements_widen(residual, dtype, c1 - c0, row);
        residual = residual ? row : NULL;
    }
    float ones[WEFT_ROUTE_MAX_EXPERTS];
    for (int32_t i = 0; work->factors && i < k; i++)
        ones[i] = 1;
    const struct weft__experts_sum sum = {
        .n = c1 - c0,
        .top_k = k,
        .rows = work->results + c0,
        .stride = cols,
        .at = work->places + token * k,
        .weights = work->factors ? ones : args->weights + token * k,
        .alpha = args->alpha,
        .residual = residual,
        .y = row,
    };
    work->launch->kernel->sum(&sum);
    if (row != y)
        weft__elements_narrow(row, c1 - c0, y, dtype);
}

static void sum_task(void *opaque, int32_t token, int32_t thread)
{
    const struct weft__experts_work *work = opaque;
    (void)thread;
    sum_columns(work, token, 0, work->desc->cols);
}

static void await(const _Atomic int32_t *ready)
{
    for (int i = 0; !atomic_load(ready); i++)
        if (i < SPINS)
            weft__cpu_pause();
        else
            sched_yield();
}

static int32_t next_expert(const struct weft__experts_work *work, int32_t active)
{
    return active + 1 < work->active ? work->experts[active + 1] : -1;
}

// A piece of an active expert's inner rows; the last one rounds what down reads.
static void joined_inner_task(void *opaque, int32_t index, int32_t thread)
{
    struct weft__experts_work *work = opaque;
    const int32_t active = index % work->active, e = work->experts[active];
    weft__cpu_experts_inner(work, e, index / work->active, next_expert(work, active));
    if (atomic_fetch_sub(&work->inner_left[active], 1) > 1)
        return;
    for (int32_t i = work->args->starts[e]; i < work->args->starts[e + 1]; i++)
        between_task(work, i, thread);
    atomic_store(&work->ready[active], 1);
}

// A piece of an active expert's down rows; the last expert's sums these columns.
static void joined_down_task(void *opaque, int32_t index, int32_t thread)
{
    struct weft__experts_work *work = opaque;
    const int32_t active = index % work->active, piece = index / work->active;
    const int64_t c0 = piece * work->down_rows, c1 = c0 + work->down_rows;
    (void)thread;
    await(&work->ready[active]);
    weft__cpu_experts_down(work, work->experts[active], piece, next_expert(work, active));
    if (atomic_fetch_sub(&work->down_left[piece], 1) > 1)
        return;
    for (int32_t t = 0; t < work->args->batch; t++)
        sum_columns(work, t, c0, c1 < work->desc->cols ? c1 : work->desc->cols);
}

static void run_joined(const weft_context *context, struct weft__experts_work *work)
{
    const int32_t inner = (int32_t)weft__ceil_div(work->desc->inner, work->inner_rows);
    const int32_t down = (int32_t)weft__ceil_div(work->desc->cols, work->down_rows);
    for (int32_t i = 0; i < work->active; i++) {
        atomic_init(&work->inner_left[i], inner);
        atomic_init(&work->ready[i], 0);
    }
    for (int32_t i = 0; i < down; i++)
        atomic_init(&work->down_left[i], work->active);
    weft__cpu_stream_for_both(context, inner * work->active, joined_inner_task, down * work->active,
                              joined_down_task, work);
}

// Finds who is active and where every choice stands. False unless starts and order are what they must be.
static bool take_lists(struct weft__experts_work *work)
{
    const int32_t *starts = work->args->starts, *order = work->args->order;
    int32_t experts = work->desc->experts, previous = 0;
    if (starts[0] != 0 || starts[experts] != work->choices)
        return false;
    for (int32_t i = 0; i < work->choices; i++)
        work->places[i] = -1;
    for (int32_t e = 0; e < experts; e++) {
        if (starts[e + 1] < previous || starts[e + 1] > work->choices)
            return false;
        if (starts[e + 1] > previous)
            work->experts[work->active++] = e;
        previous = starts[e + 1];
    }
    for (int32_t i = 0; i < work->choices; i++) {
        if (order[i] < 0 || order[i] >= work->choices || work->places[order[i]] >= 0)
            return false;
        work->places[order[i]] = i;
        if (work->factors)
            work->factors[i] = work->args->weights[order[i]];
    }
    return true;
}

// Rows of a task, of `rows` rows `times` over.
static int64_t task_rows(const weft_context *context, int64_t rows, int64_t times, int64_t step)
{
    int64_t tasks = TASKS_A_THREAD * (int64_t)weft__cpu_of(context)->threads;
    int64_t share = weft__ceil_div(rows * times, tasks);
    share = weft__align_up(share > 0 ? share : 1, step);
    return share < rows ? share : rows;
}

static void spread(const weft_context *context, bool alone, int64_t count, weft_task_fn *task,
                   struct weft__experts_work *work)
{
    if (!alone)
        weft__cpu_stream_for(context, (int32_t)count, task, work);
    else
        for (int64_t i = 0; i < count; i++)
            task(work, (int32_t)i, 0);
}

static void run_all(const weft_context *context, struct weft__experts_work *work)
{
    const struct weft__experts_launch *launch = work->launch;
    int64_t bytes = launch->expert_bytes * work->active;
    bool alone = weft__plan_linear_alone(bytes, work->args->batch, weft__cpu_of(context)->threads);
    bool few = alone || work->choices <= WEFT__FEW_ROWS;
    const struct weft__experts_rows *chosen = &launch->chosen, *between = &launch->between;
    work->inner_rows = task_rows(context, work->desc->inner, work->active, launch->inner_step);
    work->down_rows = task_rows(context, work->desc->cols, work->active, launch->down_step);
    if (launch->tokens.f32 >= 0 || launch->tokens.rounded >= 0 || launch->tokens.bf16 >= 0)
        spread(context, few, work->args->batch, token_task, work);
    if (work->active < work->choices &&
        (chosen->f32 >= 0 || chosen->rounded >= 0 || chosen->bf16 >= 0))
        spread(context, few, work->choices, gather_task, work);
    if (few && !alone &&
        weft__ceil_div(work->desc->cols, work->down_rows) <= WEFT__EXPERTS_MAX_PIECES) {
        run_joined(context, work);
        return;
    }
    spread(context, alone, work->active * weft__ceil_div(work->desc->inner, work->inner_rows),
           inner_task, work);
    if (between->rounded >= 0 || between->bf16 >= 0)
        spread(context, few, work->choices, between_task, work);
    spread(context, alone, work->active * weft__ceil_div(work->desc->cols, work->down_rows),
           down_task, work);
    spread(context, few, work->args->batch, sum_task, work);
}

weft__submit_fn weft__cpu_submit_experts;
weft_status weft__cpu_submit_experts(const weft_plan *plan, const void *opaque_args,
                                     weft_stream *stream)
{
    const struct weft__experts_launch *launch = plan->launch;
    const weft_experts_desc *desc = plan->desc;
    const weft_experts_args *args = opaque_args;
    (void)stream;
    struct weft__experts_work work = {.desc = desc,
                                      .launch = launch,
                                      .args = args,
                                      .workspace = args->workspace,
                                      .cpu = weft__cpu_of(plan->context),
                                      .choices = args->batch * desc->top_k,
                                      .x = args->x,
                                      .x_stride = args->x_stride};
    if (launch->tokens.f32 >= 0) {
        work.x = weft__experts_at(&work, launch->tokens.f32);
        work.x_stride = desc->cols;
    }
    work.between = weft__experts_at(&work, launch->between.f32);
    work.up = weft__experts_at(&work, launch->up);
    work.results = weft__experts_at(&work, launch->results);
    work.places = weft__experts_at(&work, launch->places);
    if (launch->factors >= 0)
        work.factors = weft__experts_at(&work, launch->factors);
    if (!take_lists(&work))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: starts and order are no sorted choices of %d tokens",
                          args->batch);
    run_all(plan->context, &work);
    if (args->bytes_read)
        *args->bytes_read += (uint64_t)(launch->expert_bytes * work.active);
    return WEFT_OK;
}
