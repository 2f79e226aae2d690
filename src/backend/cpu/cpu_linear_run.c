// SPDX-License-Identifier: MIT
// Runs of linear layers. First the rows of X are made ready (widened, normed, rounded), then the rows of
// W are multiplied by them in tasks, of all parts in one parallel region; a task also does what follows
// the product: gate, residual, narrowing, rounding. Where W has too few rows for the threads there are, the rows of X are
// cut as well.
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
    bool few;                  // rounded rows have the planes for a few rows of X
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

static void ready_row(const struct work *work, int32_t m)
{
    const struct weft__linear_launch *launch = work->launch;
    const weft_linear_args *args = work->args;
    int64_t cols = work->desc->cols;
    const float *x = (const float *)args->x + m * args->x_stride;
    if (launch->x_offset >= 0) {
        float *own = (float *)(void *)(work->workspace + launch->x_offset) + m * cols;
        if (work->desc->x_dtype != WEFT_F32) {
            weft_dtype dtype = work->desc->x_dtype;
            weft__elements_widen(weft__element_at(args->x, dtype, m * args->x_stride), dtype, cols,
                                 own);
            x = own;
        }
        const weft_norm_args norm = {
            .x = x, .y = own, .weight = args->norm_weight, .bias = args->norm_bias};
        if (launch->norm.kernel)
            launch->norm.kernel->run(&launch->norm, &norm, 0, 1);
        x = own;
    }
    if (launch->rounds) {
        struct weft__rounded_row to = weft__rounded_row(&work->acts, m);
        weft__rounded_begin(&work->acts, m, cols, work->few, false);
        launch->round(&to, 0, launch->x_layout.stride, x, cols, to.head->few);
    }
}

// Rows [m, m + rows), those that lie in one another together.
static void ready_rows(const struct work *work, int32_t m, int32_t rows)
{
    for (int32_t i = 0; i < rows; i++)
        ready_row(work, m + i);
    if (work->x_bf16)
        work->launch->narrow(work->x + m * work->x_stride, work->x_stride, rows, work->desc->cols,
                             m, work->x_bf16, work->x_bf16_stride);
}

// Rows that are made ready by one thread: those that lie in one another share cache lines.
static int32_t ready_together(const struct work *work)
{
    return work->x_bf16 && work->launch->turned ? work->launch->turned : 1;
}

static void ready_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int32_t rows = ready_together(work), left = work->args->batch - index * rows;
    (void)thread;
    ready_rows(work, index * rows, rows < left ? rows : left);
}

// A row is made ready in a thousandth of its multiplication: a few are not worth a parallel region.
static void ready_x(const weft_context *context, struct work *work, bool alone)
{
    int32_t batch = work->args->batch;
    if (!work->launch->rounds && work->launch->x_offset < 0 && !work->x_bf16)
        return;
    if (!alone && batch > WEFT__FEW_ROWS)
        weft__cpu_parallel_for(context, (int32_t)weft__ceil_div(batch, ready_together(work)),
                               ready_task, work);
    else
        ready_rows(work, 0, batch);
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
    const struct weft__linear_part_launch *launch = &work->launch->parts[p];
    bool staged = work->launch->staged;
    struct weft__linear_call call = {
        .dtype = part->weight_dtype,
        .weight = args->weight ? args->weight : args->packed,
        .weight_stride_bytes = args->weight_stride_bytes,
        .rows = part->rows,
        .cols = work->desc->cols,
        .batch = work->args->batch,
        .alpha = work->args->alpha,
        .x_scale = work->x_scale,
        .x = work->x,
        .x_stride = work->x_stride,
        .x_bf16 = work->x_bf16,
        .x_bf16_stride = work->x_bf16_stride,
        .acts = work->acts,
        .y = staged ? (void *)(work->workspace + launch->y_offset) : args->y,
        .y_stride = staged ? weft__cpu_staged_stride(work->desc, p) : args->y_stride,
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

// Stores f32 results of columns [r0, r1) of Y's row m in the format of y, with the residual.
static void narrow(const struct work *work, int32_t p, int32_t m, int64_t r0, int64_t r1,
                   float *value)
{
    const weft_linear_args *args = work->args;
    const weft_linear_part_args *part = &args->parts[p];
    weft_dtype dtype = work->desc->y_dtype;
    for (int64_t r = r0; args->residual && r < r1; r++)
        value[r - r0] += weft__element_load(args->residual, dtype, m * args->residual_stride + r);
    if (!(work->desc->flags & WEFT_LINEAR_Y_ROUNDED))
        weft__elements_narrow(value, r1 - r0,
                              weft__element_to(part->y, dtype, m * part->y_stride + r0), dtype);
}

// Rounds columns [r0, r1) of a row of results, r0 a multiple of WEFT__ROUNDED_STEP.
static void round_result(const struct work *work, void *buffer, int32_t m, int64_t r0, int64_t r1,
                         const float *value)
{
    const struct weft__rounded to = {work->launch->y_layout, buffer};
    struct weft__rounded_row row = weft__rounded_row(&to, m);
    int64_t end = r1 == work->desc->parts[0].rows ? to.at.stride : r1;
    work->launch->round(&row, r0, end, value, r1 - r0, row.head->few);
}

// y * weights of the next norm, rounded, and the sums of squares of y.
static void emit_next(const struct work *work, int32_t m, int64_t r0, int64_t r1)
{
    const weft_linear_args *args = work->args;
    const struct weft__rounded to = {work->launch->y_layout, args->next};
    struct weft__rounded_row row = weft__rounded_row(&to, m);
    const weft_linear_part_args *part = &args->parts[0];
    const float plus = work->desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f;
    for (int64_t r = r0; r < r1; r += WEFT__ROUNDED_STEP) {
        int64_t n = r1 - r < WEFT__ROUNDED_STEP ? r1 - r : WEFT__ROUNDED_STEP;
        float value[WEFT__ROUNDED_STEP];
        double squares = 0;
        weft_dtype dtype = work->desc->y_dtype;
        weft__elements_widen(weft__element_at(part->y, dtype, m * part->y_stride + r), dtype, n,
                             value);
        for (int64_t i = 0; i < n; i++) {
            squares += (double)value[i] * value[i];
            if (args->next_weight)
                value[i] *= args->next_weight[r + i] + plus;
        }
        row.squares[r / WEFT__ROUNDED_STEP] = squares;
        round_result(work, args->next, m, r, r + n, value);
    }
}

// Rows [m0, m1) of X, and [r0, r1) of W.
struct range {
    int32_t m0, m1;
    int64_t r0, r1;
};

// What follows the product of a range of part p.
static void finish(const struct work *work, int32_t p, struct range at)
{
    const int64_t r0 = at.r0, r1 = at.r1;
    const struct weft__linear_launch *launch = work->launch;
    const weft_linear_args *args = work->args;
    uint32_t flags = work->desc->flags;
    int64_t stride = weft__cpu_staged_stride(work->desc, p);
    float *staged = (float *)(void *)(work->workspace + launch->parts[p].y_offset);
    if (launch->activation.kernel) {
        struct weft__activation_launch gate = launch->activation;
        const float *up = (const float *)(void *)(work->workspace + launch->parts[1].y_offset);
        const weft_activation_args gate_args = {.x = staged + r0,
                                                .x_stride = stride,
                                                .up = up + r0,
                                                .up_stride = stride,
                                                .y = staged + r0,
                                                .y_stride = stride};
        gate.dim = r1 - r0;
        gate.kernel->run(&gate, &gate_args, at.m0, at.m1);
    }
    for (int32_t m = at.m0; m < at.m1; m++) {
        if (launch->staged)
            narrow(work, p, m, r0, r1, staged + m * stride + r0);
        if (flags & WEFT_LINEAR_Y_ROUNDED)
            round_result(work, args->parts[0].y, m, r0, r1, staged + m * stride + r0);
        if (flags & WEFT_LINEAR_NEXT)
            emit_next(work, m, r0, r1);
    }
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
    call.y += m0 * call.y_stride;
    call.x_bf16 = call.x_bf16 ? call.x_bf16 + m0 * call.x_bf16_stride : NULL;
    call.residual = call.residual ? call.residual + m0 * call.residual_stride : NULL;
    return call;
}

static void multiply_range(const struct work *work, int32_t p, struct range at)
{
    const struct weft__linear_launch *launch = work->launch;
    for (int32_t i = p; i <= (launch->activation.kernel ? 1 : p); i++) {
        const struct weft__linear_call call = call_for(work, i, at.m0, at.m1);
        work->kernels[i]->run(&call, at.r0, at.r1);
    }
    if (launch->staged || work->desc->flags & WEFT_LINEAR_NEXT)
        finish(work, p, at);
}

// Tasks that follow one another have their rows of X in common.
static void multiply_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int32_t p = 0;
    (void)thread;
    for (; index >= work->tasks_of[p]; p++)
        index -= work->tasks_of[p];
    const int64_t rows = work->desc->parts[p].rows;
    struct range at = {.m0 = index / work->row_tasks[p] * work->piece[p],
                       .r0 = index % work->row_tasks[p] * work->rows_per_task[p]};
    at.m1 = work->args->batch - at.m0 < work->piece[p] ? work->args->batch : at.m0 + work->piece[p];
    at.r1 = rows - at.r0 < work->rows_per_task[p] ? rows : at.r0 + work->rows_per_task[p];
    multiply_range(work, p, at);
}

// Rows of X of a task: all, unless a thread would have less than four tasks. Rounded rows stay together, and so does
// what kernels lay into one another or multiply at a time.
static int32_t piece_of(const weft_context *context, const struct work *work, int32_t p)
{
    enum { TASKS = 4, ROWS = 96 };
    const int32_t batch = work->args->batch;
    const int64_t tasks = (int64_t)TASKS * weft__cpu_of(context)->threads;
    const int64_t pieces = weft__ceil_div(tasks, work->row_tasks[p]);
    const bool rounded = work->kernels[p]->acts == WEFT__ACTS_q8 ||
                         (work->desc->gate && work->kernels[1]->acts == WEFT__ACTS_q8);
    if (rounded || pieces <= 1 || batch <= ROWS)
        return batch;
    return (int32_t)(weft__ceil_div(weft__ceil_div(batch, pieces), ROWS) * ROWS);
}

static void multiply(const weft_context *context, struct work *work, bool alone)
{
    int32_t tasks = 0, parts = work->desc->gate ? 1 : work->desc->num_parts;
    for (int32_t p = 0; p < parts; p++) {
        const struct weft__linear_split *split = &work->launch->parts[p].split;
        const int32_t batch = work->args->batch;
        const int64_t rows = work->desc->parts[p].rows;
        if (alone) {
            multiply_range(work, p, (struct range){0, batch, 0, rows});
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
    struct work work = {.desc = desc, .launch = launch, .args = args, .workspace = workspace};
    work.few = args->batch <= WEFT__FEW_ROWS || desc->flags & WEFT_LINEAR_BATCH_INVARIANT ||
               launch->kernel->few_planes;
    work.x = args->x;
    work.x_stride = args->x_stride;
    if (launch->x_offset >= 0) {
        work.x = (const float *)(void *)(workspace + launch->x_offset);
        work.x_stride = desc->cols;
    }
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
    bool alone =
        weft__plan_linear_alone(launch->bytes, args->batch, weft__cpu_of(plan->context)->threads);
    begin_results(&work);
    ready_x(plan->context, &work, alone);
    for (int32_t p = 0; p < desc->num_parts; p++)
        work.calls[p] = call_of(&work, p);
    multiply(plan->context, &work, alone);
    return WEFT_OK;
}
