// SPDX-License-Identifier: MIT
// Runs of linear layers. First the rows of X are made ready (widened, normed, rounded), then the rows of
// W are multiplied by them in tasks, of all parts in one parallel region; a task also does what follows
// the product: function, residual, narrowing, rounding. Where W has too few rows for the threads there are, the
// rows of X are cut as well.
//
// What follows a product meets it in the caches: a task multiplies a block of its rows of W at a time, whose
// results lie in memory of the thread's own, and finishes that.
#include "src/backend/cpu/cpu_linear_run.h"
#include "src/backend/cpu/cpu_stream.h"
#include "src/base/checked.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/kernels/linear/linear_packed_bf16.h"

// Does the kernel of part p take the rows of X of this run as tiles of bf16?
static bool lays(const struct weft__cpu_linear_work *work, int32_t p)
{
    const struct weft__linear_kernel *kernel = work->kernels[p];
    return work->launch->tiles_offset >= 0 && kernel->lay && work->args->batch >= kernel->lay_batch;
}

// May results of a part pass by the caches? Where many rows of X make whole lines of them that no residual has brought and nothing
// here reads.
static bool passes(const struct weft__cpu_linear_work *work, const weft_linear_part_args *args)
{
    enum { LEAST = 64, LINE = 64 };
    return work->args->batch >= LEAST && !work->launch->stage_floats && !work->args->residual &&
           !(work->desc->flags & WEFT_LINEAR_NEXT) &&
           ((uintptr_t)args->y | (uint64_t)args->y_stride * sizeof(float)) % LINE == 0;
}

static struct weft__linear_call call_of(struct weft__cpu_linear_work *work, int32_t p)
{
    const weft_linear_part *part = &work->desc->parts[p];
    const weft_linear_part_args *args = &work->args->parts[p];
    const bool staged = work->launch->stage_floats;
    struct weft__linear_call call = {
        .dtype = part->weight_dtype,
        .weight = work->packed[p] ? args->packed : args->weight,
        .weight_stride_bytes = args->weight_stride_bytes,
        .rows = part->rows,
        .cols = work->desc->cols,
        .asks_far = weft__cpu_asks(work->cpu, work->kernels[p]->pack, work->args->batch),
        .asks_near = work->cpu->asks_near,
        .invariant = work->desc->flags & WEFT_LINEAR_BATCH_INVARIANT,
        .batch = work->args->batch,
        .run_batch = work->args->batch,
        .alpha = work->args->alpha,
        .x_scale = work->x_scale,
        .x = work->x,
        .x_stride = work->x_stride,
        .x_bf16 = work->x_bf16,
        .x_bf16_stride = work->x_bf16_stride,
        .x_tiles = lays(work, p) ? work->x_tiles : NULL,
        .x_tiles_rows = work->x_tiles_rows,
        .acts = work->acts,
        .y = staged ? NULL : args->y,
        .y_stride = args->y_stride,
        .y_past = passes(work, args),
        .bias = args->bias,
        .residual = staged ? NULL : work->args->residual,
        .residual_stride = work->args->residual_stride,
    };
    struct weft__codes_layout codes;
    if (work->kernels[p]->codes && weft__codes_lay_out(call.rows, call.cols, &codes)) {
        call.weight += codes.rows;
        call.weight_stride_bytes = codes.row_bytes;
    }
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

// A thread's call of a part for some rows of X: all of them, where they are rounded or tiles.
static struct weft__linear_call call_for(const struct weft__cpu_linear_work *work, int32_t p,
                                         int32_t m0, int32_t m1, int32_t thread)
{
    struct weft__linear_call call = work->calls[p];
    call.room = work->workspace + work->launch->room_offset + thread * work->launch->room_bytes;
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

// Row r of part p, the first of a panel where these are packed; NULL past the last.
static const unsigned char *row_at(const struct weft__cpu_linear_work *work, int32_t p, int64_t r)
{
    const struct weft__linear_call *call = &work->calls[p];
    if (r >= call->rows)
        return NULL;
    return call->weight + (work->kernels[p]->pack ? weft__packed_offset(call->dtype, call->cols, r)
                                                  : r * call->weight_stride_bytes);
}

// A block of results, and what follows them. Parts that go together take turns, block by block.
static void multiply_staged(const struct weft__cpu_linear_work *work, int32_t p,
                            struct weft__cpu_linear_range at, int32_t thread,
                            const struct weft__cpu_linear_stage *stage)
{
    const int32_t last = p + weft__linear_together(work->desc) - 1;
    for (int32_t i = p; i <= last; i++) {
        struct weft__linear_call call = call_for(work, i, at.m0, at.m1, thread);
        call.next = i < last ? row_at(work, i + 1, at.r0) : row_at(work, p, at.r1);
        call.next_from = at.r1;
        call.y = stage->results[i - p] - at.r0;
        call.y_stride = stage->stride;
        work->kernels[i]->run(&call, at.r0, at.r1);
    }
    weft__cpu_linear_finish(work, p, at, stage);
}

struct taker {
    const struct weft__cpu_linear_work *work;
    int32_t p, m0;
};

static void take(void *opaque, float *results, int64_t stride, int32_t m, int32_t count,
                 int64_t row, int64_t rows)
{
    const struct taker *taker = opaque;
    const struct weft__cpu_linear_range at = {taker->m0 + m, taker->m0 + m + count, row,
                                              row + rows};
    weft__cpu_linear_finish(taker->work, taker->p, at,
                            &(struct weft__cpu_linear_stage){{results, NULL}, stride});
}

// Does the kernel of part p hand over what something follows? Rounded rows come in whole steps, gates in two parts.
static bool delivers(const struct weft__cpu_linear_work *work, int32_t p)
{
    return work->kernels[p]->delivers && weft__linear_together(work->desc) == 1 &&
           !(work->desc->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT));
}

static void multiply_range(const struct weft__cpu_linear_work *work, int32_t p,
                           struct weft__cpu_linear_range at, int32_t thread)
{
    const struct weft__linear_launch *launch = work->launch;
    if (launch->stage_floats && delivers(work, p)) {
        struct taker taker = {work, p, at.m0};
        struct weft__linear_call call = call_for(work, p, at.m0, at.m1, thread);
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
        const int64_t wanted = weft__align_up(weft__ceil_div(launch->stage_wanted, batch), step);
        const int64_t rows = wanted < most ? wanted : most;
        const struct weft__cpu_linear_stage stage = {{floats, floats + launch->stage_floats}, rows};
        for (int64_t end = at.r1; at.r0 < end; at.r0 = at.r1) {
            at.r1 = end - at.r0 < rows ? end : at.r0 + rows;
            multiply_staged(work, p, at, thread, &stage);
        }
        return;
    }
    const struct weft__linear_call call = call_for(work, p, at.m0, at.m1, thread);
    work->kernels[p]->run(&call, at.r0, at.r1);
    weft__cpu_linear_emit_next(work, at);
}

// Tasks that follow one another have their rows of X in common.
static void multiply_task(void *opaque, int32_t index, int32_t thread)
{
    const struct weft__cpu_linear_work *work = opaque;
    int32_t p = 0;
    for (; index >= work->tasks_of[p]; p++)
        index -= work->tasks_of[p];
    const int64_t rows = work->desc->parts[p].rows;
    struct weft__cpu_linear_range at = {.m0 = index / work->row_tasks[p] * work->piece[p],
                                        .r0 = index % work->row_tasks[p] * work->rows_per_task[p]};
    at.m1 = work->args->batch - at.m0 < work->piece[p] ? work->args->batch : at.m0 + work->piece[p];
    at.r1 = rows - at.r0 < work->rows_per_task[p] ? rows : at.r0 + work->rows_per_task[p];
    multiply_range(work, p, at, thread);
}

static bool in_shorts(const struct weft__cpu_linear_work *work, int32_t p)
{
    return work->kernels[p]->base.level == WEFT__ISA_amx &&
           work->kernels[p]->acts == WEFT__ACTS_bf16 &&
           weft__linear_in_shorts(work->x_bf16_stride, work->args->batch,
                                  work->desc->parts[p].rows);
}

// Rows of W of a task that takes X as tiles: 512, if all threads have four such, where X is so large that it comes from the
// third-level cache for each task anew.
static int64_t rows_by_tiles(const weft_context *context, const struct weft__cpu_linear_work *work,
                             int32_t p, int64_t least)
{
    enum { MOST = 512, TASKS = 4, PANEL = 32, LARGE_X = 768 * 1024 };
    const int64_t tasks = (int64_t)TASKS * weft__cpu_of(context)->threads;
    const int64_t share = weft__align_up(weft__ceil_div(work->desc->parts[p].rows, tasks), PANEL);
    const int64_t most = share < MOST ? share : MOST;
    return 2 * work->desc->cols * work->args->batch > LARGE_X && most > least ? most : least;
}

// Rows of W of a task. In short chunks of columns X comes from the third-level cache for each task anew, too: not less than 128, if
// all threads have that.
static int64_t rows_of(const weft_context *context, const struct weft__cpu_linear_work *work,
                       int32_t p)
{
    enum { LEAST = 128, PANEL = 32 };
    const struct weft__linear_split *split = &work->launch->parts[p].split;
    if (work->args->batch <= WEFT__FEW_ROWS)
        return split->rows_per_task;
    if (lays(work, p))
        return rows_by_tiles(context, work, p, split->rows_per_batch_task);
    if (!in_shorts(work, p) || split->rows_per_batch_task >= LEAST)
        return split->rows_per_batch_task;
    const int64_t share = weft__ceil_div(work->desc->parts[p].rows, weft__cpu_of(context)->threads);
    const int64_t least = share < LEAST ? weft__align_up(share, PANEL) : LEAST;
    return least > split->rows_per_batch_task ? least : split->rows_per_batch_task;
}

// Rows of X of a task: all, unless a thread would have less than four tasks, or tiles of AMX would not find them in the
// second-level cache for the next panel of W. Rounded rows stay together, and so does what kernels lay into one
// another or multiply at a time.
static int32_t piece_of(const weft_context *context, const struct weft__cpu_linear_work *work,
                        int32_t p)
{
    enum {
        TASKS = 4,
        ROWS = 96,
        TILE_ROWS = 32,
        LEAST_TILED = 128,
        LEAST_SHORT = 256,
        CACHE_BYTES = 768 * 1024
    };
    const int32_t batch = work->args->batch;
    const int64_t tasks = (int64_t)TASKS * weft__cpu_of(context)->threads;
    const int64_t pieces = weft__ceil_div(tasks, work->row_tasks[p]);
    const int32_t last = p + weft__linear_together(work->desc) - 1;
    const bool rounded =
        work->kernels[p]->acts == WEFT__ACTS_q8 || work->kernels[last]->acts == WEFT__ACTS_q8;
    if (rounded || batch <= ROWS)
        return batch;
    int64_t rows = weft__ceil_div(weft__ceil_div(batch, pieces), ROWS) * ROWS;
    if (in_shorts(work, p)) {
        rows = rows > LEAST_SHORT ? weft__align_up(rows, TILE_ROWS) : LEAST_SHORT;
    } else if (work->kernels[p]->base.level == WEFT__ISA_amx) {
        const int64_t held = CACHE_BYTES / (2 * work->x_bf16_stride);
        const int64_t parts = weft__ceil_div(batch, held > LEAST_TILED ? held : LEAST_TILED);
        const int64_t share = weft__align_up(weft__ceil_div(batch, parts), TILE_ROWS);
        rows = share < rows ? share : rows;
    }
    return rows < batch ? (int32_t)rows : batch;
}

static void multiply(const weft_context *context, struct weft__cpu_linear_work *work, bool alone)
{
    int32_t tasks = 0, parts = work->desc->gate ? 1 : work->desc->num_parts;
    for (int32_t p = 0; p < parts; p++) {
        const int32_t batch = work->args->batch;
        const int64_t rows = work->desc->parts[p].rows;
        if (alone) {
            multiply_range(work, p, (struct weft__cpu_linear_range){0, batch, 0, rows}, 0);
            continue;
        }
        work->rows_per_task[p] = rows_of(context, work, p);
        work->row_tasks[p] = (int32_t)weft__ceil_div(rows, work->rows_per_task[p]);
        work->piece[p] = piece_of(context, work, p);
        work->tasks_of[p] = work->row_tasks[p] * (int32_t)weft__ceil_div(batch, work->piece[p]);
        tasks += work->tasks_of[p];
    }
    if (!alone)
        weft__cpu_stream_for(context, tasks, multiply_task, work);
}

// Would 12 bits not hold the weights of a part?
static bool was_no_matrix(const weft_linear_part_args *args)
{
    return ((const struct weft__codes_head *)args->packed)->listed == WEFT__CODES_MANY;
}

// Has a part packed weights? Those that 12 bits would not hold lie beside them.
static bool is_packed(const struct weft__cpu_linear_work *work, int32_t p)
{
    const struct weft__linear_kernel *kernel = work->launch->parts[p].packed;
    const weft_linear_part_args *args = &work->args->parts[p];
    return args->packed && kernel && !(kernel->codes && args->weight && was_no_matrix(args));
}

static weft_status choose_kernels(const weft_plan *plan, struct weft__cpu_linear_work *work)
{
    for (int32_t p = 0; p < work->desc->num_parts; p++) {
        const struct weft__linear_part_launch *part = &work->launch->parts[p];
        const bool packed = is_packed(work, p);
        if (packed && part->packed->codes && was_no_matrix(&work->args->parts[p]))
            return weft__fail(plan->context, WEFT_EINVAL,
                              "linear: weft_linear_pack() did not take these weights, which belong "
                              "beside `packed`");
        work->packed[p] = packed;
        work->kernels[p] = packed ? weft__linear_packed_for(part, work->args->batch)
                                  : weft__linear_kernel_for(part, work->args->batch, work->few);
        if (work->kernels[p] && weft__linear_reads_packed(work->kernels[p]) != packed)
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
        if (lays(work, p)) {
            work->lay = work->kernels[p]->lay;
            work->x_tiles = (uint16_t *)(void *)(work->workspace + work->launch->tiles_offset);
            work->x_tiles_rows = weft__align_up(work->args->batch, WEFT__BF16_ROWS);
        }
    }
    return WEFT_OK;
}

// Does nobody read the rows of X rounded to 8 bits?
static bool all_tiles(const struct weft__cpu_linear_work *work)
{
    bool all = work->lay && work->launch->rounds;
    for (int32_t p = 0; p < work->desc->num_parts; p++)
        all = all && (work->kernels[p]->acts != WEFT__ACTS_q8 || lays(work, p));
    return all;
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
    struct weft__cpu_linear_work work = {.desc = desc,
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
        weft_status status = weft__cpu_linear_take_rounded(plan, &work);
        if (status != WEFT_OK)
            return status;
    }
    weft_status status = choose_kernels(plan, &work);
    if (status != WEFT_OK)
        return status;
    work.lays_numbers = all_tiles(&work);
    if (launch->ready_offset >= 0 && work.keeps_x) {
        work.x = (const float *)(void *)(workspace + launch->x_offset);
        work.x_stride = desc->cols;
    }
    work.takes_bf16 = work.x_bf16 && desc->x_dtype == WEFT_BF16 && !desc->norm && !desc->x_gate &&
                      !work.keeps_x && !launch->rounds;
    bool alone =
        weft__plan_linear_alone(launch->bytes, args->batch, weft__cpu_of(plan->context)->threads);
    weft__cpu_linear_begin_results(&work);
    weft__cpu_linear_ready_x(plan->context, &work, alone);
    weft__cpu_linear_lay_x(plan->context, &work, alone);
    for (int32_t p = 0; p < desc->num_parts; p++)
        work.calls[p] = call_of(&work, p);
    multiply(plan->context, &work, alone);
    return WEFT_OK;
}
