// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/norm.h>

#include "src/api/api.h"

static weft_status check_desc(weft_context *context, weft_norm_desc *desc)
{
    if (desc->flags & ~(uint32_t)WEFT_NORM_WEIGHT_PLUS_ONE)
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
    if (!weft__api_stride(&args.x_stride, dim, dim, args.rows) ||
        !weft__api_stride(&args.y_stride, dim, dim, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "norm: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.x, weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.y, weft__api_alignment(desc->y_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.weight | (uintptr_t)args.bias,
                                weft__api_alignment(desc->weight_dtype)));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
