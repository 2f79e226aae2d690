// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/linear.h>
#include <weft/norm.h>

#include "src/api/api.h"

static weft_status check_rounding(weft_context *context, const weft_norm_desc *desc)
{
    if (desc->dim % 32 != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "norm: rows of %lld are not rounded: dim must be a multiple of 32",
                          (long long)desc->dim);
    if (desc->y_dtype != WEFT_F32)
        return weft__fail(context, WEFT_EINVAL, "norm: a rounded y has no format of its own");
    return weft_rounded_bytes(context, 1, desc->dim) > 0 && desc->dim <= INT32_MAX
               ? WEFT_OK
               : weft__fail(context, WEFT_EOVERFLOW, "norm: rows of %lld cannot be rounded on %s",
                            (long long)desc->dim, context->backend->name);
}

static weft_status check_desc(weft_context *context, weft_norm_desc *desc)
{
    const uint32_t known =
        WEFT_NORM_WEIGHT_PLUS_ONE | WEFT_NORM_Y_ROUNDED | WEFT_NORM_BATCH_INVARIANT;
    if (desc->flags & ~known)
        return weft__fail(context, WEFT_EINVAL, "norm: unknown flags 0x%x", desc->flags);
    if ((unsigned)desc->kind > WEFT_NORM_LAYER)
        return weft__fail(context, WEFT_EINVAL, "norm: unknown kind %d", (int)desc->kind);
    if (desc->dim < 1)
        return weft__fail(context, WEFT_EINVAL, "norm: dim must be positive");
    if (!(desc->eps >= 0) || !isfinite(desc->eps))
        return weft__fail(context, WEFT_EINVAL, "norm: eps must be finite and not negative");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_norm, "x_dtype", &desc->x_dtype));
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_norm, "y_dtype", &desc->y_dtype));
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_norm, "weight_dtype", &desc->weight_dtype));
    if (desc->flags & WEFT_NORM_Y_ROUNDED)
        WEFT__TRY(check_rounding(context, desc));
    else if (desc->flags & WEFT_NORM_BATCH_INVARIANT)
        return weft__fail(context, WEFT_EINVAL,
                          "norm: WEFT_NORM_BATCH_INVARIANT is for rounded rows: every other norm "
                          "of a row is the same in any batch");
    return weft__api_most(context, WEFT__OP_norm, "max_rows", &desc->max_rows);
}

weft_status weft_norm_plan(weft_context *context, const weft_norm_desc *user_desc, weft_plan **out)
{
    weft_norm_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_norm, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_norm, &desc, out);
}

weft_status weft_norm_run(const weft_plan *plan, const weft_norm_args *user_args)
{
    weft_norm_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_norm, &args, WEFT__KNOWN(&args), user_args));
    const weft_norm_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, desc->max_rows));
    if (args.rows == 0)
        return WEFT_OK;
    if (!args.x || !args.y)
        return weft__fail(plan->context, WEFT_EINVAL, "norm: x and y must not be NULL");
    if (args.bias && desc->kind != WEFT_NORM_LAYER)
        return weft__fail(plan->context, WEFT_EINVAL, "norm: only LayerNorm has a bias");
    int64_t dim = desc->dim;
    bool rounded = desc->flags & WEFT_NORM_Y_ROUNDED;
    if (rounded && args.residual)
        return weft__fail(plan->context, WEFT_EINVAL, "norm: a rounded result takes no residual");
    if (!weft__api_stride(&args.x_stride, dim, dim, args.rows) ||
        !weft__api_stride(&args.y_stride, dim, dim, args.rows) ||
        !weft__api_stride(&args.residual_stride, dim, dim, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "norm: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.x, weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.y | (uintptr_t)args.residual,
                                rounded ? 64 : weft__api_alignment(desc->y_dtype)));
    WEFT__TRY(weft__api_workspace(plan, args.workspace, args.workspace_bytes));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.weight | (uintptr_t)args.bias,
                                weft__api_alignment(desc->weight_dtype)));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
