// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/linear.h>

#include "src/api/api.h"
#include "src/base/checked.h"

static weft_status check_desc(weft_context *context, weft_linear_desc *desc)
{
    const uint32_t known = WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT;
    if (desc->flags & ~known)
        return weft__fail(context, WEFT_EINVAL, "linear: unknown flags 0x%x", desc->flags & ~known);
    int32_t block = weft_dtype_block_elems(desc->weight_dtype);
    if (block == 0)
        return weft__fail(context, WEFT_EINVAL, "linear: weight_dtype %d is no format",
                          (int)desc->weight_dtype);
    if ((desc->x_dtype && desc->x_dtype != WEFT_F32) ||
        (desc->y_dtype && desc->y_dtype != WEFT_F32))
        return weft__fail(context, WEFT_EUNSUPPORTED, "linear: x and y must be f32");
    if (desc->rows < 1 || desc->cols < 1)
        return weft__fail(context, WEFT_EINVAL, "linear: rows and cols must be positive");
    if (desc->cols % block != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "linear: cols=%lld is no whole number of %s blocks of %d",
                          (long long)desc->cols, weft_dtype_name(desc->weight_dtype), block);
    int64_t row = weft_dtype_row_bytes(desc->weight_dtype, desc->cols), bytes;
    if (row < 0 || !weft__mul_i64(row, desc->rows, &bytes))
        return weft__fail(context, WEFT_EOVERFLOW, "linear: the bytes of W do not fit");
    return weft__api_most(context, WEFT__OP_linear, "max_batch", &desc->max_batch);
}

weft_status weft_linear_plan(weft_context *context, const weft_linear_desc *user_desc,
                             weft_plan **out)
{
    weft_linear_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_linear, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_linear, &desc, out);
}

static weft_status settle_strides(const weft_plan *plan, weft_linear_args *args)
{
    const weft_linear_desc *desc = plan->desc;
    weft_dtype format = desc->weight_dtype;
    int64_t row = weft_dtype_row_bytes(format, desc->cols);
    if (!weft__api_stride(&args->weight_stride_bytes, row, row, desc->rows) ||
        !weft__api_stride(&args->x_stride, desc->cols, desc->cols, args->batch) ||
        !weft__api_stride(&args->y_stride, desc->rows, desc->rows, args->batch) ||
        !weft__api_stride(&args->residual_stride, desc->rows, desc->rows, args->batch))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan,
                                (uintptr_t)args->weight | (uintptr_t)args->weight_stride_bytes,
                                weft__api_alignment(format)));
    return weft__api_aligned(plan,
                             (uintptr_t)args->x | (uintptr_t)args->y | (uintptr_t)args->bias |
                                 (uintptr_t)args->residual,
                             sizeof(float));
}

weft_status weft_linear_run(const weft_plan *plan, const weft_linear_args *user_args)
{
    weft_linear_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_linear, &args, WEFT__KNOWN(&args), user_args));
    const weft_linear_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "batch", args.batch, desc->max_batch));
    if (args.batch == 0)
        return WEFT_OK;
    if (!args.weight || !args.x || !args.y)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: weight, x and y must not be NULL");
    WEFT__TRY(settle_strides(plan, &args));
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
