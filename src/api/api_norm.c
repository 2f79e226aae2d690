// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/norm.h>

#include "src/api/api.h"
#include "src/kernels/norm/norm_kernel.h"
#include "src/plan/plan_norm.h"

static weft_status check_desc(weft_context *context, weft_norm_desc *desc,
                              const weft_norm_desc *user_desc)
{
    if (!weft__api_read(desc, WEFT__KNOWN(desc), user_desc))
        return weft__fail(context, WEFT_EINVAL, "norm: bad descriptor size or unknown members");
    if (desc->flags & ~(uint32_t)WEFT_NORM_WEIGHT_PLUS_ONE)
        return weft__fail(context, WEFT_EINVAL, "norm: unknown flags 0x%x", desc->flags);
    if ((unsigned)desc->kind > WEFT_NORM_LAYER)
        return weft__fail(context, WEFT_EINVAL, "norm: unknown kind %d", (int)desc->kind);
    if (desc->dim < 1 || desc->max_rows < 0)
        return weft__fail(context, WEFT_EINVAL, "norm: dim and max_rows must be positive");
    if (!(desc->eps >= 0) || !isfinite(desc->eps))
        return weft__fail(context, WEFT_EINVAL, "norm: eps must be finite and not negative");
    if (desc->max_rows == 0)
        desc->max_rows = 1;
    return WEFT_OK;
}

weft_status weft_norm_plan(weft_context *context, const weft_norm_desc *user_desc, weft_plan **out)
{
    weft_norm_desc desc;
    if (!context || !out)
        return WEFT_EINVAL;
    WEFT__TRY(check_desc(context, &desc, user_desc));
    return weft__api_plan(context, WEFT__OP_norm, sizeof(struct weft__norm_launch), weft__plan_norm,
                          &desc, out);
}

weft_status weft_norm_run(const weft_plan *plan, const weft_norm_args *user_args)
{
    weft_norm_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_norm, &args, WEFT__KNOWN(&args), user_args));
    const struct weft__norm_launch *launch = plan->launch;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, launch->max_rows));
    if (args.rows == 0)
        return WEFT_OK;
    if (!args.x || !args.y)
        return weft__fail(plan->context, WEFT_EINVAL, "norm: x and y must not be NULL");
    if (args.bias && launch->kernel->kind != WEFT_NORM_LAYER)
        return weft__fail(plan->context, WEFT_EINVAL, "norm: only LayerNorm has a bias");
    if (!weft__api_stride(&args.x_stride, launch->dim) ||
        !weft__api_stride(&args.y_stride, launch->dim))
        return weft__fail(plan->context, WEFT_EINVAL, "norm: a stride is shorter than its row");
    return plan->context->backend->submit[WEFT__OP_norm](plan->context, launch, &args);
}
