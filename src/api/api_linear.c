// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/linear.h>

#include "src/api/api.h"
#include "src/base/checked.h"
#include "src/plan/plan_linear.h"

static weft_status check_part(weft_context *context, const weft_linear_desc *desc,
                              weft_linear_part *part)
{
    int32_t block = weft_dtype_block_elems(part->weight_dtype);
    if (block == 0)
        return weft__fail(context, WEFT_EINVAL, "linear: weight_dtype %d is no format",
                          (int)part->weight_dtype);
    if (part->rows < 1 || desc->cols < 1)
        return weft__fail(context, WEFT_EINVAL, "linear: rows and cols must be positive");
    if (desc->cols % block != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "linear: cols=%lld is no whole number of %s blocks of %d",
                          (long long)desc->cols, weft_dtype_name(part->weight_dtype), block);
    int64_t row = weft_dtype_row_bytes(part->weight_dtype, desc->cols), bytes;
    if (row < 0 || !weft__mul_i64(row, part->rows, &bytes))
        return weft__fail(context, WEFT_EOVERFLOW, "linear: the bytes of W do not fit");
    WEFT__TRY(weft__api_tail(context, "linear: a part", part->reserved, 4));
    if (part->scale_cols < 0 || part->scale_rows < 0)
        return weft__fail(context, WEFT_EINVAL,
                          "linear: scale_cols and scale_rows must not be negative");
    if (part->scale_rows && !weft__plan_linear_planes(part))
        return weft__fail(context, WEFT_EINVAL, "linear: scale_rows without scale_cols");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_linear, "scale_dtype", &part->scale_dtype));
    if (weft__plan_linear_planes(part) && part->scale_cols == 0)
        part->scale_cols = block > 1 ? block : desc->cols;
    part->scale_rows = part->scale_rows ? part->scale_rows : 1;
    if (desc->flags & WEFT_LINEAR_X_ROUNDED && (block == 1 || desc->flags & WEFT_LINEAR_EXACT))
        return weft__fail(
            context, WEFT_EINVAL,
            "linear: a rounded x needs weights in quantised blocks, and is not exact: "
            "%s reads f32",
            weft_dtype_name(part->weight_dtype));
    return WEFT_OK;
}

static weft_status check_parts(weft_context *context, weft_linear_desc *desc)
{
    if (desc->num_parts < 0 || desc->num_parts > WEFT_LINEAR_MAX_PARTS)
        return weft__fail(context, WEFT_EINVAL, "linear: num_parts=%d is outside 0..%d",
                          desc->num_parts, WEFT_LINEAR_MAX_PARTS);
    if (desc->num_parts && (desc->weight_dtype || desc->rows))
        return weft__fail(context, WEFT_EINVAL,
                          "linear: weight_dtype and rows belong to the parts when there are any");
    if (desc->num_parts == 0) {
        desc->parts[0] = (weft_linear_part){.weight_dtype = desc->weight_dtype, .rows = desc->rows};
    }
    int32_t parts = desc->num_parts ? desc->num_parts : 1;
    for (int32_t p = 0; p < parts; p++)
        WEFT__TRY(check_part(context, desc, &desc->parts[p]));
    return WEFT_OK;
}

static weft_status check_extras(weft_context *context, const weft_linear_desc *desc, int32_t parts)
{
    const uint32_t rounded = WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT;
    if ((unsigned)desc->norm > WEFT_LINEAR_NORM_LAYER ||
        (unsigned)desc->gate > WEFT_LINEAR_GATE_GELU_TANH ||
        (unsigned)desc->x_gate > WEFT_LINEAR_GATE_GELU_TANH)
        return weft__fail(context, WEFT_EINVAL, "linear: unknown norm %d, gate %d or x_gate %d",
                          (int)desc->norm, (int)desc->gate, (int)desc->x_gate);
    if (desc->x_gate && (desc->norm || desc->flags & WEFT_LINEAR_X_ROUNDED))
        return weft__fail(context, WEFT_EINVAL,
                          "linear: x_gate goes with neither a norm nor a rounded x");
    if (desc->reserved0)
        return weft__fail(context, WEFT_EINVAL, "linear: reserved0 is not 0");
    if (!(desc->norm_eps >= 0) || !isfinite(desc->norm_eps))
        return weft__fail(context, WEFT_EINVAL, "linear: norm_eps must be finite and not negative");
    if (desc->gate && (parts > 2 || (parts == 2 && desc->parts[0].rows != desc->parts[1].rows)))
        return weft__fail(context, WEFT_EINVAL,
                          "linear: a gate needs two parts of equal rows, a function one part");
    if (desc->flags & WEFT_LINEAR_X_ROUNDED && desc->norm == WEFT_LINEAR_NORM_LAYER)
        return weft__fail(context, WEFT_EINVAL,
                          "linear: only the RMS norm can be applied to a rounded x");
    if (desc->flags & rounded && ((parts != 1 && !desc->gate) || desc->parts[0].rows % 32))
        return weft__fail(context, WEFT_EINVAL,
                          "linear: a rounded result has one part or a gate, and rows=%lld a "
                          "multiple of 32",
                          (long long)desc->parts[0].rows);
    if ((desc->flags & rounded) == rounded || (desc->flags & WEFT_LINEAR_NEXT && desc->gate))
        return weft__fail(context, WEFT_EINVAL,
                          "linear: WEFT_LINEAR_NEXT goes with neither a gate nor a rounded y");
    return WEFT_OK;
}

weft_status weft__api_linear_desc(weft_context *context, weft_linear_desc *desc)
{
    const uint32_t known = WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT | WEFT_LINEAR_X_ROUNDED |
                           WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT | WEFT_LINEAR_NORM_PLUS_ONE |
                           WEFT_LINEAR_F32_AS_BF16;
    if (desc->flags & ~known)
        return weft__fail(context, WEFT_EINVAL, "linear: unknown flags 0x%x", desc->flags & ~known);
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_linear, "x_dtype", &desc->x_dtype));
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_linear, "y_dtype", &desc->y_dtype));
    WEFT__TRY(check_parts(context, desc));
    WEFT__TRY(check_extras(context, desc, desc->num_parts ? desc->num_parts : 1));
    return weft__api_most(context, WEFT__OP_linear, "max_batch", &desc->max_batch);
}

weft_status weft_linear_plan(weft_context *context, const weft_linear_desc *user_desc,
                             weft_plan **out)
{
    weft_linear_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_linear, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(weft__api_linear_desc(context, &desc));
    // A plan's descriptor has parts always; what the caller said stays in weight_dtype and rows.
    desc.num_parts = desc.num_parts ? desc.num_parts : 1;
    return WEFT__API_PLAN(context, WEFT__OP_linear, &desc, out);
}

// The only matrix becomes the first part.
static weft_status settle_parts(const weft_plan *plan, weft_linear_args *args)
{
    const weft_linear_desc *desc = plan->desc;
    bool single = desc->rows != 0;
    if (!single && (args->weight || args->packed || args->bias || (args->y && !desc->gate)))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: weight, y and bias belong to the parts");
    if (single) {
        for (int32_t p = 0; p < WEFT_LINEAR_MAX_PARTS; p++)
            if (args->parts[p].weight || args->parts[p].packed || args->parts[p].y)
                return weft__fail(plan->context, WEFT_EINVAL,
                                  "linear: the plan has no parts, the run gives some");
        args->parts[0] = (weft_linear_part_args){.weight = args->weight,
                                                 .weight_stride_bytes = args->weight_stride_bytes,
                                                 .y = args->y,
                                                 .y_stride = args->y_stride,
                                                 .bias = args->bias,
                                                 .packed = args->packed};
    } else if (desc->gate && args->y) {
        args->parts[0].y = args->y;
        args->parts[0].y_stride = args->y_stride;
    }
    return WEFT_OK;
}

static bool settle_scale_stride(const weft_linear_desc *desc, const weft_linear_part *part,
                                weft_linear_part_args *args)
{
    if (!args->scales && !args->biases)
        return true;
    if (!weft__plan_linear_planes(part))
        return false;
    int64_t row = weft__ceil_div(desc->cols, part->scale_cols);
    return weft__api_stride(&args->scale_stride, row, row,
                            weft__ceil_div(part->rows, part->scale_rows));
}

// Packed weights are weights, scales and biases at known places.
static weft_status take_packed(const weft_plan *plan, int32_t p, weft_linear_part_args *args)
{
    const weft_linear_desc *desc = plan->desc;
    const weft_linear_part *part = &desc->parts[p];
    struct weft__linear_packed packed;
    // Weights of 16 bits may lie beside those that weft_linear_pack() did not take.
    const bool beside = part->weight_dtype == WEFT_BF16 && weft__api_packed_by_device(plan, p) != 0;
    if ((args->weight && !beside) || args->scales || args->biases)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: packed weights and weights beside them");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->packed, 64));
    if (weft__api_packed_by_device(plan, p))
        return WEFT_OK;
    weft__plan_linear_packed(part, desc->cols, &packed); // fitted when they were packed
    args->weight = args->packed;
    args->weight_stride_bytes = packed.row_bytes;
    if (weft__plan_linear_planes(part)) {
        args->scales = (const char *)args->packed + packed.scales;
        args->biases = (const char *)args->packed + packed.biases;
        args->scale_stride = packed.scale_row;
    }
    return WEFT_OK;
}

static weft_status settle_part(const weft_plan *plan, weft_linear_args *all, int32_t p)
{
    const weft_linear_desc *desc = plan->desc;
    const weft_linear_part *part = &desc->parts[p];
    weft_linear_part_args *args = &all->parts[p];
    bool gated = desc->gate && p == 1;
    int64_t row = weft_dtype_row_bytes(part->weight_dtype, desc->cols);
    WEFT__TRY(weft__api_tail(plan->context, "linear: a part", args->reserved, 4));
    if (args->packed)
        WEFT__TRY(take_packed(plan, p, args));
    if ((!args->weight && !args->packed) || (!args->y && !gated))
        return weft__fail(plan->context, WEFT_EINVAL, "linear: weight, x and y must not be NULL");
    if (!weft__api_stride(&args->weight_stride_bytes, row, row, part->rows) ||
        !weft__api_stride(&args->y_stride, part->rows, part->rows, all->batch))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: a stride is shorter than its row, or too long");
    if (!settle_scale_stride(desc, part, args))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: scales or biases for a part that has none (scale_cols), or a "
                          "scale_stride shorter than their row");
    if (!isfinite(args->global_scale))
        return weft__fail(plan->context, WEFT_EINVAL, "linear: global_scale is not finite");
    args->global_scale = args->global_scale != 0 ? args->global_scale : 1;
    WEFT__TRY(weft__api_aligned(plan,
                                (uintptr_t)args->weight | (uintptr_t)args->weight_stride_bytes,
                                weft__api_alignment(part->weight_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->scales | (uintptr_t)args->biases,
                                weft__api_alignment(part->scale_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->bias, sizeof(float)));
    bool rounded = (desc->flags & WEFT_LINEAR_Y_ROUNDED) && !gated; // a gate's second y is unused
    return weft__api_aligned(plan, (uintptr_t)args->y,
                             rounded ? 64 : weft__api_alignment(desc->y_dtype));
}

// A gate's parts are read together.
static weft_status check_gate_parts(const weft_plan *plan, const weft_linear_args *args)
{
    const weft_linear_desc *desc = plan->desc;
    if (desc->gate && desc->num_parts == 2 && !args->parts[0].packed != !args->parts[1].packed)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: both parts of a gate are packed, or neither");
    return WEFT_OK;
}

static weft_status settle_buffers(const weft_plan *plan, weft_linear_args *args)
{
    const weft_linear_desc *desc = plan->desc;
    const int64_t rows = desc->parts[0].rows, x_row = weft__plan_linear_x_row(desc);
    bool rounded = desc->flags & WEFT_LINEAR_X_ROUNDED, next = desc->flags & WEFT_LINEAR_NEXT;
    if (args->residual && desc->num_parts > 1 && !desc->gate)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: a residual needs a single part or a gate");
    if (next && !args->next)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: next must not be NULL");
    if ((args->norm_weight || args->norm_bias) && (!desc->norm || rounded))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: weights of a norm that the plan does not have");
    if (args->norm_bias && desc->norm != WEFT_LINEAR_NORM_LAYER)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: only LayerNorm has a bias");
    if (!weft__api_stride(&args->x_stride, x_row, x_row, args->batch) ||
        !weft__api_stride(&args->residual_stride, rows, rows, args->batch))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->x,
                                rounded ? 64 : weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(
        weft__api_aligned(plan, (uintptr_t)args->residual, weft__api_alignment(desc->y_dtype)));
    WEFT__TRY(weft__api_aligned(plan,
                                (uintptr_t)args->norm_weight | (uintptr_t)args->norm_bias |
                                    (uintptr_t)args->next_weight,
                                sizeof(float)));
    return next ? weft__api_aligned(plan, (uintptr_t)args->next, 64) : WEFT_OK;
}

weft_status weft_linear_run(const weft_plan *plan, const weft_linear_args *user_args)
{
    weft_linear_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_linear, &args, WEFT__KNOWN(&args), user_args));
    const weft_linear_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "batch", args.batch, desc->max_batch));
    if (args.batch == 0)
        return WEFT_OK;
    if (!args.x)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: weight, x and y must not be NULL");
    WEFT__TRY(settle_parts(plan, &args));
    for (int32_t p = 0; p < desc->num_parts; p++)
        WEFT__TRY(settle_part(plan, &args, p));
    WEFT__TRY(check_gate_parts(plan, &args));
    WEFT__TRY(settle_buffers(plan, &args));
    if (!isfinite(args.alpha))
        return weft__fail(plan->context, WEFT_EINVAL, "linear: alpha is not finite");
    if (args.alpha == 0)
        args.alpha = 1;
    WEFT__TRY(weft__api_workspace(plan, args.workspace, args.workspace_bytes));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}

bool weft_linear_supported(weft_context *context, const weft_linear_desc *desc, const char **reason)
{
    weft_plan *plan = NULL;
    weft_status status = weft_linear_plan(context, desc, &plan);
    return weft__api_supported(context, status, plan, reason);
}
