// SPDX-License-Identifier: MIT
// Runs of linear layers. First the rows of X are made ready (widened, normed, rounded), then the rows of
// W are multiplied by them in tasks, of all parts in one parallel region; a task also does what follows
// the product: function, residual, narrowing, rounding. Where W has too few rows for the threads there are, the rows of X are
// cut as well.
//
// What follows a product meets it in the caches: a task multiplies a block of its rows of W at a time, whose results lie in
// memory of the thread's own, and finishes that. Rows of X that are widened or normed for kernels that read them narrower
// pass through such memory too.
#include <math.h>

#include "src/backend/cpu/cpu_linear.h"
#include "src/backend/cpu/cpu_stream.h"
#include "src/base/checked.h"
#include "src/kernels/element.h"

struct work {
    const weft_linear_desc *desc;
    const struct weft__linear_launch *launch;
    const weft_linear_args *args;
    unsigned char *workspace;
    const struct weft__cpu *cpu;
    bool few;                  // rounded rows have the planes for a few rows of X
    bool keeps_x;              // a kernel reads X in f32
    bool takes_bf16;           // X is bf16 as it comes, and nobody reads it otherwise
    struct weft__rounded acts; // of X
    const float *x;            // f32 rows of X
    int64_t x_stride;
    uint16_t *x_bf16; // rows of X in bf16, or NULL
    int64_t x_bf16_stride;
    float *x_scale;                           // or NULL
    int32_t row_tasks[WEFT_LINEAR_MAX_PARTS]; // by rows of W
    int32_t tasks_of[WEFT_LINEAR_MAX_PARTS];  // for each piece of X
    int64_t rows_per_task[WEFT_LINEAR_MAX_PARTS];
    int32_t piece[WEFT_LINEAR_MAX_PARTS]; // rows of X of a task
    struct weft__linear_planes planes[WEFT_LINEAR_MAX_PARTS];
    struct weft__linear_call calls[WEFT_LINEAR_MAX_PARTS];
    const struct weft__linear_kernel *kernels[WEFT_LINEAR_MAX_PARTS];
};

// Where row m of X becomes f32 and normed: among all rows, or, if nobody reads it later, among those that the thread makes
// ready together from `first` on.
static float *own_row(const struct work *work, int32_t m, int32_t first, int32_t thread)
{
    const struct weft__linear_launch *launch = work->launch;
    const int64_t row = work->keeps_x ? m : (int64_t)thread * launch->together + (m - first);
    return (float *)(void *)(work->workspace +
                             (work->keeps_x ? launch->x_offset : launch->ready_offset)) +
           row * work->desc->cols;
}

static void widen_row(const struct work *work, const void *x, float *y)
{
    const struct weft__activation_launch *widen = &work->launch->widen;
    const weft_activation_args args = {.x = x, .y = y};
    if (widen->kernel->base.level == WEFT__ISA_ref)
        weft__elements_widen(x, work->desc->x_dtype, work->desc->cols, y);
    else
        widen->kernel->run(widen, &args, 0, 1);
}

// Row m of X, `own` being its place if it is widened or normed.
static const float *ready_row(const struct work *work, int32_t m, float *own)
{
    const struct weft__linear_launch *launch = work->launch;
    const weft_linear_args *args = work->args;
    const int64_t cols = work->desc->cols;
    const void *from = weft__element_at(args->x, work->desc->x_dtype, m * args->x_stride);
    const float *x = from;
    if (launch->widen.kernel) {
        widen_row(work, from, own);
        x = own;
    }
    const weft_norm_args norm = {
        .x = x, .y = own, .weight = args->norm_weight, .bias = args->norm_bias};
    if (launch->norm.kernel) {
        launch->norm.kernel->run(&launch->norm, &norm, 0, 1);
        x = own;
    }
    if (launch->rounds) {
        struct weft__rounded_row to = weft__rounded_row(&work->acts, m);
        weft__rounded_begin(&work->acts, m, cols, work->few, false);
        launch->round(&to, 0, launch->x_layout.stride, x, cols, to.head->few);
    }
    return x;
}

// Rows [m, m + rows), those that lie in one another together.
static void ready_rows(const struct work *work, int32_t m, int32_t rows, int32_t thread)
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
    if (work->x_bf16)
        launch->narrow(x, WEFT_F32, own ? work->desc->cols : stride, rows, work->desc->cols, m,
                       work->x_bf16, work->x_bf16_stride);
}

static void ready_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    const int32_t rows = work->launch->together, left = work->args->batch - index * rows;
    ready_rows(work, index * rows, rows < left ? rows : left, thread);
}

// A row is made ready in a thousandth of its multiplication: a few are not worth a parallel region.
static void ready_x(const weft_context *context, struct work *work, bool alone)
{
    const int32_t batch = work->args->batch;
    const int32_t tasks = (int32_t)weft__ceil_div(batch, work->launch->together);
    if (!work->launch->rounds && work->launch->ready_offset < 0 && !work->x_bf16)
        return;
    if (!alone && batch > WEFT__FEW_ROWS)
        weft__cpu_parallel_for(context, tasks, ready_task, work);
    else
        for (int32_t i = 0; i < tasks; i++)
            ready_task(work, i, 0);
}

// Checks the rows of a rounded X and takes their factors.
static weft_status take_rounded(const weft_plan *plan, struct work *work)
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

static struct weft__linear_call call_of(struct work *work, int32_t p)
{
    const weft_linear_part *part = &work->desc->parts[p];
    const weft_linear_part_args *args = &work->args->parts[p];
    const bool staged = work->launch->stage_floats;
    struct weft__linear_call call = {
        .dtype = part->weight_dtype,
        .weight = args->weight ? args->weight : args->packed,
        .weight_stride_bytes = args->weight_stride_bytes,
        .rows = part->rows,
        .cols = work->desc->cols,
        .asks_far = weft__cpu_asks(work->cpu, work->kernels[p]->pack, work->args->batch),
        .many = weft__linear_many(work->args->batch, work->desc->flags),
        .batch = work->args->batch,
        .alpha = work->args->alpha,
        .x_scale = work->x_scale,
        .x = work->x,
        .x_stride = work->x_stride,
        .x_bf16 = work->x_bf16,
        .x_bf16_stride = work->x_bf16_stride,
        .acts = work->acts,
        .y = staged ? NULL : args->y,
        .y_stride = args->y_stride,
        .bias = args->bias,
        .residual = staged ? NULL : work->args->residual,
        .residual_stride = work->args->residual_stride,
    };
    call.alpha *= args->global_scale;
    if (args->scales || args->biases) {
        work->planes[p] = (struct weft__linear_planes){
            .scales = args->scales,
            .biases = args->biases,
            .dtype = part->scale_dtype,
            .scale_cols = part->scale_cols,
            .scale_rows = part->scale_rows,
            .stride = args->scale_stride,
        };
        call.planes = &work->planes[p];
    }
    return call;
}

// Adds columns [r0, r1) of row m of the residual.
static void add_residual(const struct work *work, int32_t m, int64_t r0, int64_t r1, float *value)
{
    const weft_linear_args *args = work->args;
    for (int64_t r = r0; args->residual && r < r1; r++)
        value[r - r0] +=
            weft__element_load(args->residual, work->desc->y_dtype, m * args->residual_stride + r);
}

// Rows [m0, m1) of X, and [r0, r1) of W.
struct range {
    int32_t m0, m1;
    int64_t r0, r1;
};

// Results of a block that something follows, of both parts of a gate.
struct stage {
    float *results[2];
    int64_t stride;
};

// Rounds columns [r0, r1) of a row of results, r0 a multiple of WEFT__ROUNDED_STEP.
static void round_result(const struct work *work, void *buffer, int32_t m, int64_t r0, int64_t r1,
                         const float *value)
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
static void emit_next_row(const struct work *work, int32_t m, int64_t r0, int64_t r1)
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

// The same of the rows of a range, where the plan makes that.
static void emit_next(const struct work *work, struct range at)
{
    for (int32_t m = at.m0; m < at.m1 && work->desc->flags & WEFT_LINEAR_NEXT; m++)
        emit_next_row(work, m, at.r0, at.r1);
}

// The function of a block of results, which may be none, and the format of y.
static void apply_function(const struct work *work, int32_t p, struct range at,
                           const struct stage *stage, bool into_y)
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

// What follows the product of a block of part p.
static void finish(const struct work *work, int32_t p, struct range at, const struct stage *stage)
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
    emit_next(work, at);
}

// A call of a part for some rows of X: all of them, where they are rounded.
static struct weft__linear_call call_for(const struct work *work, int32_t p, int32_t m0, int32_t m1)
{
    struct weft__linear_call call = work->calls[p];
    call.batch = m1 - m0;
    if (m0 == 0)
        return call;
    call.x += m0 * call.x_stride;
    call.x_scale = call.x_scale ? call.x_scale + m0 : NULL;
    call.y = call.y ? call.y + m0 * call.y_stride : NULL;
    call.x_bf16 = call.x_bf16 ? call.x_bf16 + m0 * call.x_bf16_stride : NULL;
    call.residual = call.residual ? call.residual + m0 * call.residual_stride : NULL;
    return call;
}

// A block of results, and what follows them.
static void multiply_staged(const struct work *work, int32_t p, struct range at,
                            const struct stage *stage)
{
    for (int32_t i = p; i < p + weft__linear_together(work->desc); i++) {
        struct weft__linear_call call = call_for(work, i, at.m0, at.m1);
        call.y = stage->results[i - p] - at.r0;
        call.y_stride = stage->stride;
        work->kernels[i]->run(&call, at.r0, at.r1);
    }
    finish(work, p, at, stage);
}

struct taker {
    const struct work *work;
    int32_t p, m0;
};

static void take(void *opaque, float *results, int64_t stride, int32_t m, int32_t count,
                 int64_t row, int64_t rows)
{
    const struct taker *taker = opaque;
    const struct range at = {taker->m0 + m, taker->m0 + m + count, row, row + rows};
    finish(taker->work, taker->p, at, &(struct stage){{results, NULL}, stride});
}

// Does the kernel of part p hand over what something follows? Rounded rows come in whole steps, gates in two parts.
static bool delivers(const struct work *work, int32_t p)
{
    return work->kernels[p]->delivers && weft__linear_together(work->desc) == 1 &&
           !(work->desc->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT));
}

static void multiply_range(const struct work *work, int32_t p, struct range at, int32_t thread)
{
    const struct weft__linear_launch *launch = work->launch;
    if (launch->stage_floats && delivers(work, p)) {
        struct taker taker = {work, p, at.m0};
        struct weft__linear_call call = call_for(work, p, at.m0, at.m1);
        call.take = take;
        call.taker = &taker;
        work->kernels[p]->run(&call, at.r0, at.r1);
        return;
    }
    if (launch->stage_floats) {
        float *floats = (float *)(void *)(work->workspace + launch->stage_offset) +
                        weft__linear_together(work->desc) * thread * launch->stage_floats;
        const int64_t step = launch->stage_step, batch = at.m1 - at.m0;
        const int64_t most = launch->stage_floats / batch / step * step;
        const int64_t wanted = weft__align_up(weft__ceil_div(WEFT__STAGE_FLOATS, batch), step);
        const int64_t rows = wanted < most ? wanted : most;
        const struct stage stage = {{floats, floats + launch->stage_floats}, rows};
        for (int64_t end = at.r1; at.r0 < end; at.r0 = at.r1) {
            at.r1 = end - at.r0 < rows ? end : at.r0 + rows;
            multiply_staged(work, p, at, &stage);
        }
        return;
    }
    const struct weft__linear_call call = call_for(work, p, at.m0, at.m1);
    work->kernels[p]->run(&call, at.r0, at.r1);
    emit_next(work, at);
}

// Tasks that follow one another have their rows of X in common.
static void multiply_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int32_t p = 0;
    for (; index >= work->tasks_of[p]; p++)
        index -= work->tasks_of[p];
    const int64_t rows = work->desc->parts[p].rows;
    struct range at = {.m0 = index / work->row_tasks[p] * work->piece[p],
                       .r0 = index % work->row_tasks[p] * work->rows_per_task[p]};
    at.m1 = work->args->batch - at.m0 < work->piece[p] ? work->args->batch : at.m0 + work->piece[p];
    at.r1 = rows - at.r0 < work->rows_per_task[p] ? rows : at.r0 + work->rows_per_task[p];
    multiply_range(work, p, at, thread);
}

// Rows of X of a task: all, unless a thread would have less than four tasks, or tiles of AMX would not find them in the
// second-level cache for the next panel of W. Rounded rows stay together, and so does what kernels lay into one another or
// multiply at a time.
static int32_t piece_of(const weft_context *context, const struct work *work, int32_t p)
{
    enum { TASKS = 4, ROWS = 96, TILE_ROWS = 32, LEAST_TILED = 128, CACHE_BYTES = 768 * 1024 };
    const int32_t batch = work->args->batch;
    const int64_t tasks = (int64_t)TASKS * weft__cpu_of(context)->threads;
    const int64_t pieces = weft__ceil_div(tasks, work->row_tasks[p]);
    const int32_t last = p + weft__linear_together(work->desc) - 1;
    const bool rounded =
        work->kernels[p]->acts == WEFT__ACTS_q8 || work->kernels[last]->acts == WEFT__ACTS_q8;
    if (rounded || batch <= ROWS)
        return batch;
    int64_t rows = weft__ceil_div(weft__ceil_div(batch, pieces), ROWS) * ROWS;
    if (work->kernels[p]->base.level == WEFT__ISA_amx) {
        const int64_t held = CACHE_BYTES / (2 * work->x_bf16_stride);
        const int64_t parts = weft__ceil_div(batch, held > LEAST_TILED ? held : LEAST_TILED);
        const int64_t share = weft__align_up(weft__ceil_div(batch, parts), TILE_ROWS);
        rows = share < rows ? share : rows;
    }
    return rows < batch ? (int32_t)rows : batch;
}

static void multiply(const weft_context *context, struct work *work, bool alone)
{
    int32_t tasks = 0, parts = work->desc->gate ? 1 : work->desc->num_parts;
    for (int32_t p = 0; p < parts; p++) {
        const struct weft__linear_split *split = &work->launch->parts[p].split;
        const int32_t batch = work->args->batch;
        const int64_t rows = work->desc->parts[p].rows;
        if (alone) {
            multiply_range(work, p, (struct range){0, batch, 0, rows}, 0);
            continue;
        }
        work->rows_per_task[p] =
            batch <= WEFT__FEW_ROWS ? split->rows_per_task : split->rows_per_batch_task;
        work->row_tasks[p] = (int32_t)weft__ceil_div(rows, work->rows_per_task[p]);
        work->piece[p] = piece_of(context, work, p);
        work->tasks_of[p] = work->row_tasks[p] * (int32_t)weft__ceil_div(batch, work->piece[p]);
        tasks += work->tasks_of[p];
    }
    if (!alone)
        weft__cpu_stream_for(context, tasks, multiply_task, work);
}

// Heads of the rounded rows that this run makes.
static void begin_results(const struct work *work)
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

static weft_status choose_kernels(const weft_plan *plan, struct work *work)
{
    for (int32_t p = 0; p < work->desc->num_parts; p++) {
        const struct weft__linear_part_launch *part = &work->launch->parts[p];
        const bool packed = work->args->parts[p].packed && part->packed;
        work->kernels[p] =
            packed ? part->packed : weft__linear_kernel_for(part, work->args->batch, work->few);
        if (work->kernels[p] && !work->kernels[p]->pack != !packed)
            return weft__fail(plan->context, WEFT_EINVAL, "linear: '%s' reads packed weights alone",
                              work->kernels[p]->base.name);
        if (!work->kernels[p])
            return weft__fail(plan->context, WEFT_EINVAL,
                              "linear: '%s' wants x rounded for at most %d rows, or with "
                              "WEFT_LINEAR_BATCH_INVARIANT",
                              part->kernels[0]->base.name, WEFT__FEW_ROWS);
        work->keeps_x = work->keeps_x || work->kernels[p]->acts == WEFT__ACTS_f32;
        if (work->kernels[p]->narrow) {
            work->x_bf16 = (uint16_t *)(void *)(work->workspace + work->launch->bf16_offset);
            work->x_bf16_stride = weft__linear_bf16_stride(work->desc->cols);
        }
    }
    return WEFT_OK;
}

weft__submit_fn weft__cpu_submit_linear;
weft_status weft__cpu_submit_linear(const weft_plan *plan, const void *opaque_args,
                                    weft_stream *stream)
{
    const struct weft__linear_launch *launch = plan->launch;
    const weft_linear_desc *desc = plan->desc;
    const weft_linear_args *args = opaque_args;
    unsigned char *workspace = args->workspace;
    (void)stream;
    struct work work = {.desc = desc,
                        .launch = launch,
                        .args = args,
                        .workspace = workspace,
                        .cpu = weft__cpu_of(plan->context)};
    work.few = args->batch <= WEFT__FEW_ROWS || desc->flags & WEFT_LINEAR_BATCH_INVARIANT ||
               launch->kernel->few_planes;
    work.x = args->x;
    work.x_stride = args->x_stride;
    if (launch->rounds)
        work.acts = (struct weft__rounded){launch->x_layout, workspace + launch->rounded_offset};
    if (launch->scale_offset >= 0)
        work.x_scale = (float *)(void *)(workspace + launch->scale_offset);
    if (desc->flags & WEFT_LINEAR_X_ROUNDED) {
        weft_status status = take_rounded(plan, &work);
        if (status != WEFT_OK)
            return status;
    }
    weft_status status = choose_kernels(plan, &work);
    if (status != WEFT_OK)
        return status;
    if (launch->ready_offset >= 0 && work.keeps_x) {
        work.x = (const float *)(void *)(workspace + launch->x_offset);
        work.x_stride = desc->cols;
    }
    work.takes_bf16 = work.x_bf16 && desc->x_dtype == WEFT_BF16 && !desc->norm && !work.keeps_x &&
                      !launch->rounds;
    bool alone =
        weft__plan_linear_alone(launch->bytes, args->batch, weft__cpu_of(plan->context)->threads);
    begin_results(&work);
    ready_x(plan->context, &work, alone);
    for (int32_t p = 0; p < desc->num_parts; p++)
        work.calls[p] = call_of(&work, p);
    multiply(plan->context, &work, alone);
    return WEFT_OK;
}
