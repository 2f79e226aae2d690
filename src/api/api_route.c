// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/route.h>

#include "src/api/api.h"

static weft_status check_groups(weft_context *context, weft_route_desc *desc)
{
    desc->groups = desc->groups ? desc->groups : 1;
    desc->top_groups = desc->top_groups ? desc->top_groups : desc->groups;
    desc->group_best = desc->group_best ? desc->group_best : 1;
    if (desc->groups < 1 || desc->experts % desc->groups != 0)
        return weft__fail(context, WEFT_EINVAL, "route: %d experts do not make %d equal groups",
                          desc->experts, desc->groups);
    int32_t size = desc->experts / desc->groups;
    if (desc->top_groups < 1 || desc->top_groups > desc->groups)
        return weft__fail(context, WEFT_EINVAL, "route: top_groups=%d is outside 0..%d",
                          desc->top_groups, desc->groups);
    if (desc->group_best < 1 || desc->group_best > size)
        return weft__fail(context, WEFT_EINVAL, "route: group_best=%d is outside 0..%d",
                          desc->group_best, size);
    if (desc->top_k < 1 || desc->top_k > desc->top_groups * size)
        return weft__fail(context, WEFT_EINVAL, "route: top_k=%d is outside 1..%d", desc->top_k,
                          desc->top_groups * size);
    return WEFT_OK;
}

static weft_status check_desc(weft_context *context, weft_route_desc *desc)
{
    if (desc->flags & ~(uint32_t)WEFT_ROUTE_NORMALISE)
        return weft__fail(context, WEFT_EINVAL, "route: unknown flags 0x%x", desc->flags);
    if ((unsigned)desc->score > WEFT_ROUTE_SIGMOID)
        return weft__fail(context, WEFT_EINVAL, "route: unknown score %d", (int)desc->score);
    if (desc->experts < 1 || desc->experts > WEFT_ROUTE_MAX_EXPERTS)
        return weft__fail(context, WEFT_EINVAL, "route: experts=%d is outside 1..%d", desc->experts,
                          WEFT_ROUTE_MAX_EXPERTS);
    WEFT__TRY(check_groups(context, desc));
    if (!isfinite(desc->scale))
        return weft__fail(context, WEFT_EINVAL, "route: scale is not finite");
    desc->scale = desc->scale != 0 ? desc->scale : 1;
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_route, "logits_dtype", &desc->logits_dtype));
    if (desc->reserved0)
        return weft__fail(context, WEFT_EINVAL, "route: reserved0 is not 0");
    WEFT__TRY(weft__api_most(context, WEFT__OP_route, "max_rows", &desc->max_rows));
    if (desc->max_rows > INT32_MAX / desc->top_k)
        return weft__fail(context, WEFT_EOVERFLOW, "route: max_rows * top_k does not fit");
    return WEFT_OK;
}

weft_status weft_route_plan(weft_context *context, const weft_route_desc *user_desc,
                            weft_plan **out)
{
    weft_route_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_route, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_route, &desc, out);
}

weft_status weft_route_run(const weft_plan *plan, const weft_route_args *user_args)
{
    weft_route_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_route, &args, WEFT__KNOWN(&args), user_args));
    const weft_route_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, desc->max_rows));
    if (!args.starts != !args.order)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "route: starts and order are wanted both or not at all");
    if (args.rows == 0 && !args.starts)
        return WEFT_OK;
    if (args.rows > 0 && (!args.logits || !args.ids || !args.weights))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "route: logits, ids and weights must not be NULL");
    if (!weft__api_stride(&args.logits_stride, desc->experts, desc->experts, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "route: the stride is shorter than a row, or too long");
    WEFT__TRY(
        weft__api_aligned(plan, (uintptr_t)args.logits, weft__api_alignment(desc->logits_dtype)));
    WEFT__TRY(weft__api_aligned(plan,
                                (uintptr_t)args.bias | (uintptr_t)args.ids |
                                    (uintptr_t)args.weights | (uintptr_t)args.starts |
                                    (uintptr_t)args.order,
                                sizeof(float)));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
