// SPDX-License-Identifier: MIT
#include <math.h>
#include <string.h>

#include <weft/experts.h>

#include "src/api/api.h"
#include "src/base/checked.h"
#include "src/plan/plan_experts.h"
#include "src/plan/plan_linear.h"

static bool lacks(const weft_experts_desc *desc, int part)
{
    return part == WEFT_EXPERTS_UP && desc->flags & WEFT_EXPERTS_PLAIN;
}

static weft_status check_parts(weft_context *context, weft_experts_desc *desc)
{
    static const weft_linear_part none;
    if (lacks(desc, WEFT_EXPERTS_UP) &&
        memcmp(&desc->parts[WEFT_EXPERTS_UP], &none, sizeof none) != 0)
        return weft__fail(context, WEFT_EINVAL, "experts: plain ones have no part of up");
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        int64_t rows = p == WEFT_EXPERTS_DOWN ? desc->cols : desc->inner;
        if (desc->parts[p].rows && desc->parts[p].rows != rows)
            return weft__fail(context, WEFT_EINVAL, "experts: part %d has %lld rows, not %lld", p,
                              (long long)desc->parts[p].rows, (long long)rows);
    }
    weft_linear_desc inner = weft__plan_experts_inner(desc), down = weft__plan_experts_down(desc);
    WEFT__TRY(weft__api_linear_desc(context, &inner));
    WEFT__TRY(weft__api_linear_desc(context, &down));
    desc->parts[WEFT_EXPERTS_GATE] = inner.parts[0];
    desc->parts[WEFT_EXPERTS_UP] = lacks(desc, WEFT_EXPERTS_UP) ? none : inner.parts[1];
    desc->parts[WEFT_EXPERTS_DOWN] = down.parts[0];
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        if (lacks(desc, p))
            continue;
        int64_t bytes,
            row = weft_dtype_row_bytes(desc->parts[p].weight_dtype,
                                       p == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols);
        if (!weft__mul_i64(row, desc->parts[p].rows, &bytes) ||
            !weft__mul_i64(bytes, desc->experts, &bytes))
            return weft__fail(context, WEFT_EOVERFLOW, "experts: the bytes of all do not fit");
    }
    return WEFT_OK;
}

static weft_status check_desc(weft_context *context, weft_experts_desc *desc)
{
    const uint32_t known = WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT |
                           WEFT_LINEAR_NORM_PLUS_ONE | WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT |
                           WEFT_EXPERTS_PLAIN | WEFT_EXPERTS_WEIGH_INPUT;
    if (desc->flags & ~known)
        return weft__fail(context, WEFT_EINVAL, "experts: unknown flags 0x%x",
                          desc->flags & ~known);
    if (desc->flags & WEFT_LINEAR_NEXT && desc->cols % 32 != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "experts: cols=%lld of a rounded result are no multiple of 32",
                          (long long)desc->cols);
    if (desc->experts < 1 || desc->experts > WEFT_ROUTE_MAX_EXPERTS)
        return weft__fail(context, WEFT_EINVAL, "experts: experts=%d is outside 1..%d",
                          desc->experts, WEFT_ROUTE_MAX_EXPERTS);
    if (desc->top_k < 1 || desc->top_k > desc->experts)
        return weft__fail(context, WEFT_EINVAL, "experts: top_k=%d is outside 1..%d", desc->top_k,
                          desc->experts);
    if (desc->adapter_rank < 0 || desc->adapter_rank > WEFT__EXPERTS_MAX_RANK || desc->reserved0)
        return weft__fail(context, WEFT_EINVAL, "experts: adapter_rank=%d is outside 0..%d",
                          desc->adapter_rank, WEFT__EXPERTS_MAX_RANK);
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_experts, "x_dtype", &desc->x_dtype));
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_experts, "y_dtype", &desc->y_dtype));
    WEFT__TRY(weft__api_most(context, WEFT__OP_experts, "max_batch", &desc->max_batch));
    if (desc->max_batch > INT32_MAX / desc->top_k)
        return weft__fail(context, WEFT_EOVERFLOW, "experts: max_batch * top_k does not fit");
    if (!desc->gate)
        return weft__fail(context, WEFT_EINVAL, "experts: a function between is wanted: gate");
    if ((unsigned)desc->norm > WEFT_LINEAR_NORM_RMS)
        return weft__fail(context, WEFT_EINVAL, "experts: the norm is RMS or none, not %d",
                          (int)desc->norm);
    bool clamps = desc->clamp_limit != 0;
    if (!isfinite(desc->clamp_limit) || !isfinite(desc->clamp_slope) || desc->clamp_limit < 0 ||
        (clamps ? !(desc->clamp_slope > 0) || desc->gate != WEFT_LINEAR_GATE_SILU ||
                      desc->flags & WEFT_EXPERTS_PLAIN
                : desc->clamp_slope != 0))
        return weft__fail(context, WEFT_EINVAL,
                          "experts: a clamp has a positive limit and slope, SiLU and a part of up");
    return check_parts(context, desc);
}

weft_status weft_experts_plan(weft_context *context, const weft_experts_desc *user_desc,
                              weft_plan **out)
{
    weft_experts_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_experts, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_experts, &desc, out);
}

static weft_status settle_scales(const weft_plan *plan, const weft_linear_part *part,
                                 weft_experts_part_args *args, int64_t cols)
{
    const weft_experts_desc *desc = plan->desc;
    if (!args->scales && !args->biases)
        return WEFT_OK;
    if (!weft__plan_linear_planes(part))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: scales or biases for a part that has none (scale_cols)");
    int64_t row = weft__ceil_div(cols, part->scale_cols);
    int64_t rows = weft__ceil_div(part->rows, part->scale_rows);
    if (!weft__api_stride(&args->scale_stride, row, row, rows) ||
        !weft__api_stride(&args->expert_scale_stride, args->scale_stride * rows,
                          args->scale_stride * (rows - 1) + row, desc->experts))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: a stride of scales is shorter than what it spans, or too long");
    return weft__api_aligned(plan, (uintptr_t)args->scales | (uintptr_t)args->biases,
                             weft__api_alignment(part->scale_dtype));
}

static weft_status settle_packed(const weft_plan *plan, const weft_experts_part_args *args, int p)
{
    if (args->weight || args->scales || args->biases)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: packed weights and weights beside them");
    if (!weft__api_packed_by_device(plan, p))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: packed weights for a plan that reads them as a file has them");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->packed, 64));
    return weft__api_aligned(plan, (uintptr_t)args->bias, sizeof(float));
}

static weft_status settle_part(const weft_plan *plan, weft_experts_args *all, int p)
{
    weft_experts_part_args *args = &all->parts[p];
    const weft_experts_desc *desc = plan->desc;
    const weft_linear_part *part = &desc->parts[p];
    int64_t cols = p == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols;
    int64_t row = weft_dtype_row_bytes(part->weight_dtype, cols);
    WEFT__TRY(weft__api_tail(plan->context, "experts: a part", args->reserved, 3));
    if (lacks(desc, p))
        return !args->weight && !args->packed && !args->scales && !args->biases && !args->bias
                   ? WEFT_OK
                   : weft__fail(plan->context, WEFT_EINVAL,
                                "experts: plain ones have no part of up");
    if (!args->packed != !all->parts[0].packed)
        return weft__fail(plan->context, WEFT_EINVAL, "experts: all parts are packed, or none");
    if (args->packed)
        return settle_packed(plan, args, p);
    if (!args->weight)
        return weft__fail(plan->context, WEFT_EINVAL, "experts: a weight is NULL");
    if (!weft__api_stride(&args->weight_stride_bytes, row, row, part->rows) ||
        !weft__api_stride(&args->expert_stride_bytes, args->weight_stride_bytes * part->rows,
                          args->weight_stride_bytes * (part->rows - 1) + row, desc->experts))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: a stride is shorter than what it spans, or too long");
    WEFT__TRY(settle_scales(plan, part, args, cols));
    WEFT__TRY(weft__api_aligned(plan,
                                (uintptr_t)args->weight | (uintptr_t)args->weight_stride_bytes |
                                    (uintptr_t)args->expert_stride_bytes,
                                weft__api_alignment(part->weight_dtype)));
    return weft__api_aligned(plan, (uintptr_t)args->bias, sizeof(float));
}

static weft_status settle_buffers(const weft_plan *plan, weft_experts_args *args)
{
    const weft_experts_desc *desc = plan->desc;
    if (!args->x || !args->y || !args->starts || !args->order || !args->weights)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: x, y, starts, order and weights must not be NULL");
    const bool rounded = desc->flags & WEFT_LINEAR_X_ROUNDED, next = desc->flags & WEFT_LINEAR_NEXT;
    if (rounded && !args->parts[0].packed)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: a rounded x is read with packed weights alone");
    if (next && !args->next)
        return weft__fail(plan->context, WEFT_EINVAL, "experts: next must not be NULL");
    if (args->norm_weight && (!desc->norm || rounded))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: weights of a norm that the plan does not have");
    if (!weft__api_stride(&args->x_stride, desc->cols, desc->cols, args->batch) ||
        !weft__api_stride(&args->y_stride, desc->cols, desc->cols, args->batch) ||
        !weft__api_stride(&args->residual_stride, desc->cols, desc->cols, args->batch))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->bytes_read, sizeof *args->bytes_read));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->x,
                                rounded ? 64 : weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(weft__api_aligned(plan, next ? (uintptr_t)args->next : 0, 64));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->y | (uintptr_t)args->residual,
                                weft__api_alignment(desc->y_dtype)));
    return weft__api_aligned(plan,
                             (uintptr_t)args->starts | (uintptr_t)args->order |
                                 (uintptr_t)args->weights | (uintptr_t)args->norm_weight |
                                 (uintptr_t)args->next_weight,
                             sizeof(float));
}

static bool is_plain(weft_dtype dtype)
{
    return !dtype || dtype == WEFT_F32 || dtype == WEFT_F16 || dtype == WEFT_BF16;
}

static weft_status check_adapters(const weft_plan *plan, const weft_experts_args *args)
{
    const weft_experts_desc *desc = plan->desc;
    if (args->num_adapters < 0 || (args->num_adapters > 0 && !args->adapters) || args->reserved1)
        return weft__fail(plan->context, WEFT_EINVAL, "experts: num_adapters=%d of no list",
                          args->num_adapters);
    if (args->num_adapters > WEFT__EXPERTS_MAX_ADAPTERS)
        return weft__fail(plan->context, WEFT_EINVAL, "experts: num_adapters=%d, more than %d",
                          args->num_adapters, WEFT__EXPERTS_MAX_ADAPTERS);
    for (int32_t i = 0; i < args->num_adapters; i++) {
        const weft_experts_adapter *at = &args->adapters[i];
        if ((unsigned)at->place >= WEFT_EXPERTS_PARTS || lacks(desc, (int)at->place) ||
            at->rank < 1 || at->rank > desc->adapter_rank)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "experts: adapter %d of part %d and rank %d: the plan has none such",
                              i, (int)at->place, at->rank);
        if (!at->a || !at->b || !is_plain(at->a_dtype) || !is_plain(at->b_dtype) ||
            !isfinite(at->scale) || at->reserved0)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "experts: adapter %d: matrices of f32, f16 or bf16 and a finite "
                              "scale are wanted",
                              i);
        WEFT__TRY(weft__api_tail(plan->context, "experts: an adapter", at->reserved, 2));
        WEFT__TRY(weft__api_aligned(plan, (uintptr_t)at->a,
                                    weft__api_alignment(at->a_dtype ? at->a_dtype : WEFT_F32)));
        WEFT__TRY(weft__api_aligned(plan, (uintptr_t)at->b,
                                    weft__api_alignment(at->b_dtype ? at->b_dtype : WEFT_F32)));
    }
    return WEFT_OK;
}

weft_status weft_experts_run(const weft_plan *plan, const weft_experts_args *user_args)
{
    weft_experts_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_experts, &args, WEFT__KNOWN(&args), user_args));
    const weft_experts_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "batch", args.batch, desc->max_batch));
    if (args.batch == 0)
        return WEFT_OK;
    WEFT__TRY(settle_buffers(plan, &args));
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        WEFT__TRY(settle_part(plan, &args, p));
    WEFT__TRY(check_adapters(plan, &args));
    if (!isfinite(args.alpha))
        return weft__fail(plan->context, WEFT_EINVAL, "experts: alpha is not finite");
    args.alpha = args.alpha != 0 ? args.alpha : 1;
    WEFT__TRY(weft__api_workspace(plan, args.workspace, args.workspace_bytes));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}

size_t weft_experts_packed_bytes(const weft_plan *plan, int32_t part)
{
    if (!plan || plan->op != WEFT__OP_experts || part < 0 || part >= WEFT_EXPERTS_PARTS)
        return 0;
    return (size_t)weft__api_packed_by_device(plan, part);
}

weft_status weft_experts_pack(const weft_plan *plan, const weft_linear_pack_args *user_args)
{
    weft_linear_pack_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_experts, &args, WEFT__KNOWN(&args), user_args));
    if (!weft_experts_packed_bytes(plan, args.part))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: the plan reads part %d, if it has it, as a file has it",
                          args.part);
    const weft_experts_desc *desc = plan->desc;
    const weft_linear_part *part = &desc->parts[args.part];
    const int64_t row = weft_dtype_row_bytes(
        part->weight_dtype, args.part == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols);
    if (!args.weight || !args.packed)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: weight and packed must not be NULL");
    if (args.scales || args.biases)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: scales or biases for a part that has none (scale_cols)");
    if (!weft__api_stride(&args.weight_stride_bytes, row, row, desc->experts * part->rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "experts: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_stream(plan->context, args.stream));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.packed, 64));
    return plan->context->backend->pack(plan, &args);
}
