// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/softmax.h>

#include "src/api/api.h"

static weft_status check_desc(weft_context *context, weft_softmax_desc *desc)
{
    if (desc->dim < 1)
        return weft__fail(context, WEFT_EINVAL, "softmax: dim must be positive");
    if (!isfinite(desc->scale))
        return weft__fail(context, WEFT_EINVAL, "softmax: scale is not finite");
    if (desc->scale == 0)
        desc->scale = 1;
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_softmax, "dtype", &desc->dtype));
    return weft__api_most(context, WEFT__OP_softmax, "max_rows", &desc->max_rows);
}

weft_status weft_softmax_plan(weft_context *context, const weft_softmax_desc *user_desc,
                              weft_plan **out)
{
    weft_softmax_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_softmax, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_softmax, &desc, out);
}

weft_status weft_softmax_run(const weft_plan *plan, const weft_softmax_args *user_args)
{
    weft_softmax_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_softmax, &args, WEFT__KNOWN(&args), user_args));
    const weft_softmax_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, desc->max_rows));
    if (args.rows == 0)
        return WEFT_OK;
    if (!args.x)
        return weft__fail(plan->context, WEFT_EINVAL, "softmax: x must not be NULL");
    if (!weft__api_stride(&args.x_stride, desc->dim, desc->dim, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "softmax: the stride is shorter than a row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.x, weft__api_alignment(desc->dtype)));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
