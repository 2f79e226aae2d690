// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>

#include <weft/activation.h>

#include "src/api/api.h"

static weft_status check_desc(weft_context *context, weft_activation_desc *desc)
{
    if ((unsigned)desc->kind > WEFT_ACTIVATION_NONE)
        return weft__fail(context, WEFT_EINVAL, "activation: unknown kind %d", (int)desc->kind);
    bool capped = desc->kind == WEFT_ACTIVATION_SOFTCAP;
    if (capped ? !(desc->cap >= FLT_MIN) || !isfinite(1 / desc->cap) || !isfinite(desc->cap)
               : desc->cap != 0)
        return weft__fail(
            context, WEFT_EINVAL,
            "activation: cap must be positive and finite for a soft-cap, otherwise 0");
    if (desc->dim < 1)
        return weft__fail(context, WEFT_EINVAL, "activation: dim must be positive");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_activation, "x_dtype", &desc->x_dtype));
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_activation, "y_dtype", &desc->y_dtype));
    return weft__api_most(context, WEFT__OP_activation, "max_rows", &desc->max_rows);
}

weft_status weft_activation_plan(weft_context *context, const weft_activation_desc *user_desc,
                                 weft_plan **out)
{
    weft_activation_desc desc = {0};
    WEFT__TRY(
        weft__api_desc(context, WEFT__OP_activation, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_activation, &desc, out);
}

weft_status weft_activation_run(const weft_plan *plan, const weft_activation_args *user_args)
{
    weft_activation_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_activation, &args, WEFT__KNOWN(&args), user_args));
    const weft_activation_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, desc->max_rows));
    if (args.rows == 0)
        return WEFT_OK;
    if (!args.x || !args.y)
        return weft__fail(plan->context, WEFT_EINVAL, "activation: x and y must not be NULL");
    int64_t dim = desc->dim;
    if (!weft__api_stride(&args.x_stride, dim, dim, args.rows) ||
        !weft__api_stride(&args.up_stride, dim, dim, args.rows) ||
        !weft__api_stride(&args.y_stride, dim, dim, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "activation: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.x | (uintptr_t)args.up,
                                weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.y, weft__api_alignment(desc->y_dtype)));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
