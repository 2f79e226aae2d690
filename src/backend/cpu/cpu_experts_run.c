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
// What has few rows is done by the calling thread.
#include "src/backend/cpu/cpu_experts.h"
#include "src/backend/cpu/cpu_stream.h"
#include "src/base/checked.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/plan/plan_experts.h"

// Fewer, and a thread waits for the other's last one; more, and memory begins new streams too often.
enum { TASKS_A_THREAD = 8 };

struct work {
    const weft_experts_desc *desc;
    const struct weft__experts_launch *launch;
    const weft_experts_args *args;
    unsigned char *workspace;
    int32_t choices;
    const float *x; // rows of tokens, normed
    int64_t x_stride;
    float *between, *up, *results; // rows of choices
    int32_t *places;
    float *factors; // of rows of X of choices, sorted; NULL: results are weighed
    int32_t active; // experts that anyone goes to
    int32_t experts[WEFT_ROUTE_MAX_EXPERTS];
    int64_t inner_rows, down_rows; // of a task
};

static void *at(const struct work *work, int64_t offset)
{
    return work->workspace + offset;
}

static struct weft__rounded rounded(const struct work *work,
                                    const struct weft__linear_launch *launch, int64_t offset,
                                    int64_t row)
{
    if (offset < 0)
        return (struct weft__rounded){.rows = NULL};
    return (struct weft__rounded){launch->x_layout,
                                  work->workspace + offset + row * launch->x_layout.row_bytes};
}

static uint16_t *bf16(const struct work *work, int64_t offset, int64_t cols, int64_t row)
{
    return offset < 0 ? NULL : (uint16_t *)at(work, offset) + row * weft__linear_bf16_stride(cols);
}

// Row m of `rows` in the forms that a layer's kernels read.
static void ready_row(const struct work *work, const struct weft__linear_launch *launch,
                      const struct weft__experts_rows *rows, const float *x, int64_t cols,
                      int64_t m)
{
    if (rows->rounded >= 0) {
        struct weft__rounded to = rounded(work, launch, rows->rounded, m);
        struct weft__rounded_row row = weft__rounded_row(&to, 0);
        weft__rounded_begin(&to, 0, cols, true, false);
        launch->round(&row, 0, launch->x_layout.stride, x, cols, row.head->few);
    }
    if (rows->bf16 >= 0)
        launch->narrow(x, cols, 1, cols, (int32_t)m, (uint16_t *)at(work, rows->bf16),
                       weft__linear_bf16_stride(cols));
}

// A token's row in f32, normed.
static const float *token_row(const struct work *work, int64_t token)
{
    const struct weft__norm_launch *norm = &work->launch->inner.norm;
    const weft_dtype dtype = work->desc->x_dtype;
    const void *x = weft__element_at(work->args->x, dtype, token * work->args->x_stride);
    if (work->launch->tokens.f32 < 0)
        return x;
    float *own = (float *)at(work, work->launch->tokens.f32) + token * work->desc->cols;
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
    const struct work *work = opaque;
    (void)thread;
    ready_row(work, &work->launch->inner, &work->launch->tokens, token_row(work, token),
              work->desc->cols, token);
}

// Copies the row of a choice's token beside those of its expert's other choices.
static void gather_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    const struct weft__experts_launch *launch = work->launch;
    const struct weft__experts_rows *from = &launch->tokens, *to = &launch->chosen;
    int64_t cols = work->desc->cols, token = work->args->order[index] / work->desc->top_k;
    int64_t row_bytes = launch->inner.x_layout.row_bytes;
    (void)thread;
    if (to->f32 >= 0)
        memcpy((float *)at(work, to->f32) + index * cols, work->x + token * work->x_stride,
               (size_t)cols * sizeof(float));
    if (to->rounded >= 0)
        memcpy(work->workspace + to->rounded + index * row_bytes,
               work->workspace + from->rounded + token * row_bytes, (size_t)row_bytes);
    if (to->bf16 >= 0)
        memcpy(bf16(work, to->bf16, cols, index), bf16(work, from->bf16, cols, token),
               (size_t)weft__linear_bf16_stride(cols) * sizeof(uint16_t));
}

static void between_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    int64_t inner = work->desc->inner;
    (void)thread;
    ready_row(work, &work->launch->down, &work->launch->between, work->between + index * inner,
              inner, index);
}

static const unsigned char *weights_of(const weft_experts_part_args *args,
                                       const weft_linear_part *part, int64_t cols, int32_t e)
{
    if (!args->packed)
        return (const unsigned char *)args->weight + e * args->expert_stride_bytes;
    const int64_t panel = weft__packed_panel_bytes(weft__packed_shape(part->weight_dtype), cols);
    return (const unsigned char *)args->packed + e * (part->rows / WEFT__PACKED_ROWS) * panel;
}

// A call of a linear kernel for one part of expert e, without rows of X.
static struct weft__linear_call call_of(const struct work *work, int32_t e, int p,
                                        struct weft__linear_planes *planes)
{
    bool down = p == WEFT_EXPERTS_DOWN;
    const weft_linear_part *part =
        down ? work->launch->down_desc.parts : &work->launch->inner_desc.parts[p];
    const weft_experts_part_args *args = &work->args->parts[p];
    const int32_t *starts = work->args->starts;
    const int64_t cols = down ? work->desc->inner : work->desc->cols;
    struct weft__linear_call call = {
        .dtype = part->weight_dtype,
        .weight = weights_of(args, part, cols, e),
        .weight_stride_bytes = args->weight_stride_bytes,
        .rows = part->rows,
        .cols = cols,
        .batch = starts[e + 1] - starts[e],
        .alpha = 1,
        .y = (down                     ? work->results
              : p == WEFT_EXPERTS_GATE ? work->between
                                       : work->up) +
             starts[e] * part->rows,
        .y_stride = part->rows,
        .bias = args->bias ? args->bias + e * part->rows : NULL,
        .x_scale = work->factors && !down ? work->factors + starts[e] : NULL,
    };
    if (args->scales || args->biases) {
        int64_t bytes = weft_dtype_row_bytes(part->scale_dtype, 1) * args->expert_scale_stride * e;
        *planes = (struct weft__linear_planes){
            .scales = args->scales ? (const char *)args->scales + bytes : NULL,
            .biases = args->biases ? (const char *)args->biases + bytes : NULL,
            .dtype = part->scale_dtype,
            .scale_cols = part->scale_cols,
            .scale_rows = part->scale_rows,
            .stride = args->scale_stride,
        };
        call.planes = planes;
    }
    return call;
}

// Rows of X from row `first` of `rows` on.
static void set_rows(const struct work *work, struct weft__linear_call *call,
                     const struct weft__linear_launch *launch,
                     const struct weft__experts_rows *rows, const float *x, int64_t x_stride,
                     int64_t first)
{
    call->x = x ? x + first * x_stride : NULL;
    call->x_stride = x_stride;
    call->acts = rounded(work, launch, rows->rounded, first);
    call->x_bf16 = bf16(work, rows->bf16, call->cols, first);
    call->x_bf16_stride = weft__linear_bf16_stride(call->cols);
}

static void run_part(const struct work *work, const struct weft__linear_part_launch *part,
                     const struct weft__linear_call *call, int64_t r0, int64_t r1)
{
    const struct weft__linear_kernel *kernel =
        work->args->parts[0].packed ? part->packed
                                    : weft__linear_kernel_for(part, call->batch, true);
    kernel->run(call, r0, r1);
}

// The row of X, in f32, that a part reads of the choice that stands at `index` when sorted.
static const float *row_of(const struct work *work, int p, int32_t index)
{
    if (p == WEFT_EXPERTS_DOWN)
        return work->between + (int64_t)index * work->desc->inner;
    return work->x + work->args->order[index] / work->desc->top_k * work->x_stride;
}

// y = alpha * W_e x [+ y] of a matrix of an adapter.
static void run_small(const struct work *work, weft_dtype dtype, const void *weight, int32_t e,
                      int64_t rows, int64_t cols, const struct weft__linear_call *of, int64_t r0,
                      int64_t r1)
{
    const int kind = dtype == WEFT_F16    ? WEFT__ADAPTER_F16
                     : dtype == WEFT_BF16 ? WEFT__ADAPTER_BF16
                                          : WEFT__ADAPTER_F32;
    const struct weft__linear_kernel *kernel = work->launch->adapters[kind];
    struct weft__linear_call call = *of;
    call.dtype = kernel->weight;
    call.weight_stride_bytes = weft_dtype_row_bytes(call.dtype, cols);
    call.weight = (const unsigned char *)weight + e * rows * call.weight_stride_bytes;
    call.rows = rows;
    call.cols = cols;
    call.batch = 1;
    call.x_stride = cols;
    call.y_stride = call.residual_stride = rows;
    kernel->run(&call, r0, r1);
}

// What the adapters of a part add to some rows of what expert e gave, before the function. Pieces of an expert
// each work the short row between for themselves.
static void add_adapters(const struct work *work, int32_t e, int p,
                         const struct weft__linear_call *gave, int64_t r0, int64_t r1)
{
    const int32_t *starts = work->args->starts;
    const int64_t cols = p == WEFT_EXPERTS_DOWN ? work->desc->inner : work->desc->cols;
    float between[WEFT__EXPERTS_MAX_RANK];
    for (int32_t i = 0; i < work->args->num_adapters; i++) {
        const weft_experts_adapter *at = &work->args->adapters[i];
        for (int32_t n = starts[e]; at->place == (weft_experts_place)p && n < starts[e + 1]; n++) {
            float *y = gave->y + (n - starts[e]) * gave->y_stride;
            const struct weft__linear_call first = {
                .alpha = 1,
                .x = row_of(work, p, n),
                .x_scale = gave->x_scale ? gave->x_scale + (n - starts[e]) : NULL,
                .y = between};
            const struct weft__linear_call second = {
                .alpha = at->scale, .x = between, .y = y, .residual = y};
            run_small(work, at->a_dtype, at->a, e, at->rank, cols, &first, 0, at->rank);
            run_small(work, at->b_dtype, at->b, e, gave->rows, at->rank, &second, r0, r1);
        }
    }
}

static void apply_gate(const struct work *work, int32_t e, int64_t r0, int64_t r1)
{
    const int32_t *starts = work->args->starts;
    const bool plain = work->desc->flags & WEFT_EXPERTS_PLAIN;
    int64_t inner = work->desc->inner, first = starts[e] * inner + r0;
    const weft_activation_args args = {.x = work->between + first,
                                       .x_stride = inner,
                                       .up = plain ? NULL : work->up + first,
                                       .up_stride = inner,
                                       .y = work->between + first,
                                       .y_stride = inner};
    struct weft__activation_launch gate = work->launch->inner.activation;
    gate.dim = r1 - r0;
    if (work->desc->clamp_limit == 0) {
        gate.kernel->run(&gate, &args, 0, starts[e + 1] - starts[e]);
        return;
    }
    for (int64_t i = first; i < starts[e + 1] * inner; i += inner)
        work->launch->kernel->clamp(r1 - r0, work->desc->clamp_limit, work->desc->clamp_slope,
                                    work->up + i, work->between + i);
}

// Gate, up and function of some rows of one expert.
static void inner_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    const struct weft__experts_launch *launch = work->launch;
    int64_t pieces = weft__ceil_div(work->desc->inner, work->inner_rows);
    int32_t e = work->experts[index / pieces], first = work->args->starts[e];
    int64_t r0 = index % pieces * work->inner_rows, r1 = r0 + work->inner_rows;
    (void)thread;
    r1 = r1 < work->desc->inner ? r1 : work->desc->inner;
    const int last = work->desc->flags & WEFT_EXPERTS_PLAIN ? WEFT_EXPERTS_GATE : WEFT_EXPERTS_UP;
    // With the clamp, the gate's product stands in `up`, and the result overwrites up's in `between`.
    for (int p = WEFT_EXPERTS_GATE; p <= last; p++) {
        struct weft__linear_planes planes;
        struct weft__linear_call call = call_of(work, e, p, &planes);
        if (work->desc->clamp_limit != 0)
            call.y = (p == WEFT_EXPERTS_GATE ? work->up : work->between) + first * call.rows;
        if (call.batch == 1)
            set_rows(work, &call, &launch->inner, &launch->tokens, work->x, work->x_stride,
                     work->args->order[first] / work->desc->top_k);
        else
            set_rows(work, &call, &launch->inner, &launch->chosen,
                     launch->chosen.f32 < 0 ? NULL : at(work, launch->chosen.f32), work->desc->cols,
                     first);
        run_part(work, &launch->inner.parts[p], &call, r0, r1);
        add_adapters(work, e, p, &call, r0, r1);
    }
    apply_gate(work, e, r0, r1);
}

// Down of some rows of one expert.
static void down_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    const struct weft__experts_launch *launch = work->launch;
    int64_t cols = work->desc->cols, pieces = weft__ceil_div(cols, work->down_rows);
    int32_t e = work->experts[index / pieces];
    int64_t r0 = index % pieces * work->down_rows, r1 = r0 + work->down_rows;
    struct weft__linear_planes planes;
    struct weft__linear_call call = call_of(work, e, WEFT_EXPERTS_DOWN, &planes);
    (void)thread;
    r1 = r1 < cols ? r1 : cols;
    set_rows(work, &call, &launch->down, &launch->between, work->between, work->desc->inner,
             work->args->starts[e]);
    run_part(work, &launch->down.parts[0], &call, r0, r1);
    add_adapters(work, e, WEFT_EXPERTS_DOWN, &call, r0, r1);
}

static void sum_task(void *opaque, int32_t token, int32_t thread)
{
    const struct work *work = opaque;
    const weft_experts_args *args = work->args;
    const weft_dtype dtype = work->desc->y_dtype;
    int64_t cols = work->desc->cols;
    int32_t k = work->desc->top_k;
    void *y = weft__element_to(args->y, dtype, token * args->y_stride);
    const void *residual =
        args->residual ? weft__element_at(args->residual, dtype, token * args->residual_stride)
                       : NULL;
    float *row = y;
    if (dtype != WEFT_F32) {
        row = (float *)at(work, work->launch->sums) + token * cols;
        if (residual)
            weft__elements_widen(residual, dtype, cols, row);
        residual = residual ? row : NULL;
    }
    float ones[WEFT_ROUTE_MAX_EXPERTS];
    for (int32_t i = 0; work->factors && i < k; i++)
        ones[i] = 1;
    const struct weft__experts_sum sum = {
        .n = cols,
        .top_k = k,
        .rows = work->results,
        .stride = cols,
        .at = work->places + token * k,
        .weights = work->factors ? ones : args->weights + token * k,
        .alpha = args->alpha,
        .residual = residual,
        .y = row,
    };
    (void)thread;
    work->launch->kernel->sum(&sum);
    if (row != y)
        weft__elements_narrow(row, cols, y, dtype);
}

// Finds who is active and where every choice stands. False unless starts and order are what they must be.
static bool take_lists(struct work *work)
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
                   struct work *work)
{
    if (!alone)
        weft__cpu_stream_for(context, (int32_t)count, task, work);
    else
        for (int64_t i = 0; i < count; i++)
            task(work, (int32_t)i, 0);
}

static void run_all(const weft_context *context, struct work *work)
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
    struct work work = {.desc = desc,
                        .launch = launch,
                        .args = args,
                        .workspace = args->workspace,
                        .choices = args->batch * desc->top_k,
                        .x = args->x,
                        .x_stride = args->x_stride};
    if (launch->tokens.f32 >= 0) {
        work.x = at(&work, launch->tokens.f32);
        work.x_stride = desc->cols;
    }
    work.between = at(&work, launch->between.f32);
    work.up = at(&work, launch->up);
    work.results = at(&work, launch->results);
    work.places = at(&work, launch->places);
    if (launch->factors >= 0)
        work.factors = at(&work, launch->factors);
    if (!take_lists(&work))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: starts and order are no sorted choices of %d tokens",
                          args->batch);
    run_all(plan->context, &work);
    if (args->bytes_read)
        *args->bytes_read += (uint64_t)(launch->expert_bytes * work.active);
    return WEFT_OK;
}
