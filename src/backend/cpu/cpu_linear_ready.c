// SPDX-License-Identifier: MIT
// Rows of X of a linear layer made ready: widened (or gated), normed, rounded. Those that kernels read narrower pass
// through memory of the thread's own and meet each step in the caches.
#include <math.h>

#include "src/backend/cpu/cpu_linear_run.h"
#include "src/base/checked.h"
#include "src/kernels/element.h"

// Where row m of X becomes f32 and normed: among all rows, or, if nobody reads it later, among those that the
// thread makes ready together from `first` on.
static float *own_row(const struct weft__cpu_linear_work *work, int32_t m, int32_t first,
                      int32_t thread)
{
    const struct weft__linear_launch *launch = work->launch;
    const int64_t row = work->keeps_x ? m : (int64_t)thread * launch->own_rows + (m - first);
    return (float *)(void *)(work->workspace +
                             (work->keeps_x ? launch->x_offset : launch->ready_offset)) +
           row * work->desc->cols;
}

static void widen_row(const struct weft__cpu_linear_work *work, const void *x, float *y)
{
    const struct weft__activation_launch *widen = &work->launch->widen;
    const weft_activation_args args = {.x = x, .y = y};
    if (widen->kernel->base.level == WEFT__ISA_ref)
        weft__elements_widen(x, work->desc->x_dtype, work->desc->cols, y);
    else
        widen->kernel->run(widen, &args, 0, 1);
}

// Row x of the gate, and behind it of what it lets through. Reference functions read f32, a piece at a time.
static void gate_row(const struct weft__cpu_linear_work *work, const void *x, float *y)
{
    enum { PIECE = 256 };
    const weft_dtype dtype = work->desc->x_dtype;
    const int64_t cols = work->desc->cols;
    struct weft__activation_launch gate = work->launch->widen;
    if (gate.kernel->base.level != WEFT__ISA_ref) {
        const weft_activation_args args = {.x = x, .up = weft__element_at(x, dtype, cols), .y = y};
        gate.kernel->run(&gate, &args, 0, 1);
        return;
    }
    float up[PIECE];
    for (int64_t i = 0; i < cols; i += PIECE) {
        const weft_activation_args args = {.x = y + i, .up = up, .y = y + i};
        gate.dim = cols - i < PIECE ? cols - i : PIECE;
        weft__elements_widen(weft__element_at(x, dtype, i), dtype, gate.dim, y + i);
        weft__elements_widen(weft__element_at(x, dtype, cols + i), dtype, gate.dim, up);
        gate.kernel->run(&gate, &args, 0, 1);
    }
}

// Row m of X, `own` being its place if it is widened, gated or normed.
static const float *ready_row(const struct weft__cpu_linear_work *work, int32_t m, float *own)
{
    const struct weft__linear_launch *launch = work->launch;
    const weft_linear_args *args = work->args;
    const int64_t cols = work->desc->cols;
    const void *from = weft__element_at(args->x, work->desc->x_dtype, m * args->x_stride);
    const float *x = from;
    if (launch->widen.kernel) {
        (work->desc->x_gate ? gate_row : widen_row)(work, from, own);
        x = own;
    }
    const weft_norm_args norm = {
        .x = x, .y = own, .weight = args->norm_weight, .bias = args->norm_bias};
    if (launch->norm.kernel) {
        launch->norm.kernel->run(&launch->norm, &norm, 0, 1);
        x = own;
    }
    if (launch->rounds && !work->lays_numbers) {
        struct weft__rounded_row to = weft__rounded_row(&work->acts, m);
        weft__rounded_begin(&work->acts, m, cols, work->few, false);
        launch->round(&to, 0, launch->x_layout.stride, x, cols, to.head->few);
    }
    return x;
}

// Rows [m, m + rows), those that lie in one another together.
static void ready_rows(const struct weft__cpu_linear_work *work, int32_t m, int32_t rows,
                       int32_t thread)
{
    const struct weft__linear_launch *launch = work->launch;
    const weft_dtype dtype = work->desc->x_dtype;
    const int64_t stride = work->args->x_stride;
    const bool own = launch->ready_offset >= 0;
    const void *x = weft__element_at(work->args->x, dtype, m * stride);
    if (work->takes_bf16) {
        launch->narrow(x, dtype, stride, rows, work->desc->cols, m, work->x_bf16,
                       work->x_bf16_stride);
        return;
    }
    for (int32_t i = 0; i < rows; i++) {
        const float *row = ready_row(work, m + i, own ? own_row(work, m + i, m, thread) : NULL);
        x = i ? x : row;
    }
    if (work->lays_numbers)
        work->lay->numbers(x, own ? work->desc->cols : stride, m, rows, work->desc->cols,
                           work->x_tiles, work->x_tiles_rows);
    if (work->x_bf16)
        launch->narrow(x, WEFT_F32, own ? work->desc->cols : stride, rows, work->desc->cols, m,
                       work->x_bf16, work->x_bf16_stride);
}

// Lays rows [m, m + rows), from a tile's first on.
static void lay_rows(const struct weft__cpu_linear_work *work, int32_t m, int32_t rows)
{
    work->lay->rounded(&work->acts, m, rows, work->desc->cols, work->x_tiles, work->x_tiles_rows);
}

// Rows of a task; those of a tile, if it lays what it has rounded.
static void ready_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__cpu_linear_work *work = opaque;
    const int32_t most = work->ready_rows,
                  together = work->lays_numbers ? most : work->launch->together,
                  left = work->args->batch - index * most, rows = most < left ? most : left;
    const int32_t m = index * most;
    for (int32_t i = 0; i < rows; i += together)
        ready_rows(work, m + i, together < rows - i ? together : rows - i, thread);
    if (work->lays_ready)
        lay_rows(work, m, rows);
}

// A row is made ready in a thousandth of its multiplication: a few are not worth a parallel region.
void weft__cpu_linear_ready_x(const weft_context *context, struct weft__cpu_linear_work *work,
                              bool alone)
{
    const int32_t batch = work->args->batch, threads = weft__cpu_of(context)->threads;
    if (!work->launch->rounds && work->launch->ready_offset < 0 && !work->x_bf16)
        return;
    // by tiles, where all threads have enough of them; numbers alone go so much faster by tiles that one is enough
    const int32_t tiles = batch / WEFT__BF16_ROWS, enough = (work->lays_numbers ? 1 : 4) * threads;
    const bool by_tiles = work->lay && work->launch->rounds && tiles >= enough;
    work->lays_ready = by_tiles && !work->lays_numbers;
    work->ready_rows = by_tiles ? WEFT__BF16_ROWS : work->launch->together;
    const int32_t tasks = (int32_t)weft__ceil_div(batch, work->ready_rows);
    if (!alone && batch > WEFT__FEW_ROWS)
        weft__cpu_parallel_for(context, tasks, ready_task, work);
    else
        for (int32_t i = 0; i < tasks; i++)
            ready_task(work, i, 0);
}

static void lay_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__cpu_linear_work *work = opaque;
    const int32_t m = index * WEFT__BF16_ROWS, left = work->args->batch - m;
    (void)thread;
    lay_rows(work, m, left < WEFT__BF16_ROWS ? left : WEFT__BF16_ROWS);
}

void weft__cpu_linear_lay_x(const weft_context *context, struct weft__cpu_linear_work *work,
                            bool alone)
{
    const int32_t tasks = (int32_t)weft__ceil_div(work->args->batch, WEFT__BF16_ROWS);
    if (!work->lay || work->lays_ready || work->lays_numbers)
        return;
    if (!alone)
        weft__cpu_parallel_for(context, tasks, lay_task, work);
    else
        for (int32_t i = 0; i < tasks; i++)
            lay_task(work, i, 0);
}

weft_status weft__cpu_linear_take_rounded(const weft_plan *plan, struct weft__cpu_linear_work *work)
{
    const weft_linear_desc *desc = work->desc;
    work->acts =
        (struct weft__rounded){work->launch->x_layout, (unsigned char *)(uintptr_t)work->args->x};
    work->few = true;
    for (int32_t m = 0; m < work->args->batch; m++) {
        struct weft__rounded_row row = weft__rounded_row(&work->acts, m);
        if (row.head->mark != WEFT__ROUNDED_MARK || row.head->cols != desc->cols)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "linear: row %d of x is no rounded row of %lld columns", m,
                              (long long)desc->cols);
        if (desc->norm && !row.head->squares)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "linear: a norm of rounded rows needs x made with WEFT_LINEAR_NEXT");
        work->few = work->few && (row.head->few || !work->acts.at.halves);
        double sum = 0;
        for (int64_t i = 0; desc->norm && i < weft__ceil_div(desc->cols, WEFT__ROUNDED_STEP); i++)
            sum += row.squares[i];
        if (desc->norm)
            work->x_scale[m] = (float)(1 / sqrt(sum / (double)desc->cols + desc->norm_eps));
    }
    if (desc->flags & WEFT_LINEAR_BATCH_INVARIANT && !work->few)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: x was rounded without WEFT_LINEAR_BATCH_INVARIANT");
    return WEFT_OK;
}
