// SPDX-License-Identifier: MIT
// Pieces of an expert's rows: linear's kernels by the rows of X that chose it, its adapters, its function.
#include "src/backend/cpu/cpu_experts_work.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/plan/plan_experts.h"

static const unsigned char *weights_of(const weft_experts_part_args *args,
                                       const weft_linear_part *part, int64_t cols, int32_t e)
{
    if (!args->packed)
        return (const unsigned char *)args->weight + e * args->expert_stride_bytes;
    return (const unsigned char *)args->packed +
           e * weft__packed_offset(part->weight_dtype, cols, part->rows);
}

// Row r of a part of expert e, NULL for no expert.
static const unsigned char *row_at(const struct weft__experts_work *work, int32_t e, int p,
                                   int64_t r)
{
    const bool down = p == WEFT_EXPERTS_DOWN;
    const weft_linear_part *part =
        down ? work->launch->down_desc.parts : &work->launch->inner_desc.parts[p];
    const int64_t cols = down ? work->desc->inner : work->desc->cols;
    const weft_experts_part_args *args = &work->args->parts[p];
    if (e < 0)
        return NULL;
    return weights_of(args, part, cols, e) + (args->packed
                                                  ? weft__packed_offset(part->weight_dtype, cols, r)
                                                  : r * args->weight_stride_bytes);
}

// A call of a linear kernel for one part of expert e, without rows of X.
static struct weft__linear_call call_of(const struct weft__experts_work *work, int32_t e, int p,
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
        .asks_far = weft__cpu_asks(work->cpu, args->packed, starts[e + 1] - starts[e]),
        .asks_near = work->cpu->asks_near,
        .invariant = work->desc->flags & WEFT_LINEAR_BATCH_INVARIANT,
        .batch = starts[e + 1] - starts[e],
        .run_batch = starts[e + 1] - starts[e],
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
static void set_rows(const struct weft__experts_work *work, struct weft__linear_call *call,
                     const struct weft__linear_launch *launch,
                     const struct weft__experts_rows *rows, const float *x, int64_t x_stride,
                     int64_t first)
{
    call->x = x ? x + first * x_stride : NULL;
    call->x_stride = x_stride;
    call->acts = weft__experts_rounded(work, launch, rows->rounded, first);
    call->x_bf16 = weft__experts_bf16(work, rows->bf16, call->cols, first);
    call->x_bf16_stride = weft__linear_bf16_stride(call->cols);
}

static void run_part(const struct weft__experts_work *work,
                     const struct weft__linear_part_launch *part,
                     const struct weft__linear_call *call, int64_t r0, int64_t r1)
{
    const struct weft__linear_kernel *kernel =
        work->args->parts[0].packed ? part->packed
                                    : weft__linear_kernel_for(part, call->batch, true);
    kernel->run(call, r0, r1);
}

// The row of X, in f32, that a part reads of the choice that stands at `index` when sorted.
static const float *row_of(const struct weft__experts_work *work, int p, int32_t index)
{
    if (p == WEFT_EXPERTS_DOWN)
        return work->between + (int64_t)index * work->desc->inner;
    return work->x + work->args->order[index] / work->desc->top_k * work->x_stride;
}

// y = alpha * W_e x [+ y] of a matrix of an adapter.
static void run_small(const struct weft__experts_work *work, weft_dtype dtype, const void *weight,
                      int32_t e, int64_t rows, int64_t cols, const struct weft__linear_call *of,
                      int64_t r0, int64_t r1)
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
static void add_adapters(const struct weft__experts_work *work, int32_t e, int p,
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

static void apply_gate(const struct weft__experts_work *work, int32_t e, int64_t r0, int64_t r1)
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

void weft__cpu_experts_inner(const struct weft__experts_work *work, int32_t e, int64_t piece,
                             int32_t next)
{
    const struct weft__experts_launch *launch = work->launch;
    int32_t first = work->args->starts[e];
    int64_t r0 = piece * work->inner_rows, r1 = r0 + work->inner_rows;
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
                     launch->chosen.f32 < 0 ? NULL : weft__experts_at(work, launch->chosen.f32),
                     work->desc->cols, first);
        call.next = p < last ? row_at(work, e, p + 1, r0) : row_at(work, next, 0, r0);
        call.next_from = r1;
        run_part(work, &launch->inner.parts[p], &call, r0, r1);
        add_adapters(work, e, p, &call, r0, r1);
    }
    apply_gate(work, e, r0, r1);
}

void weft__cpu_experts_down(const struct weft__experts_work *work, int32_t e, int64_t piece,
                            int32_t next)
{
    const struct weft__experts_launch *launch = work->launch;
    int64_t cols = work->desc->cols;
    int64_t r0 = piece * work->down_rows, r1 = r0 + work->down_rows;
    struct weft__linear_planes planes;
    struct weft__linear_call call = call_of(work, e, WEFT_EXPERTS_DOWN, &planes);
    r1 = r1 < cols ? r1 : cols;
    set_rows(work, &call, &launch->down, &launch->between, work->between, work->desc->inner,
             work->args->starts[e]);
    call.next = row_at(work, next, WEFT_EXPERTS_DOWN, r0);
    call.next_from = r1;
    run_part(work, &launch->down.parts[0], &call, r0, r1);
    add_adapters(work, e, WEFT_EXPERTS_DOWN, &call, r0, r1);
}
