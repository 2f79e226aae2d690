// SPDX-License-Identifier: MIT
#include <weft/linear.h>

#include "src/api/api.h"
#include "src/base/checked.h"

size_t weft_rounded_bytes(const weft_context *context, int64_t rows, int64_t cols)
{
    if (!context || rows < 0 || cols < 1 || !context->backend->rounded_row_bytes)
        return 0;
    int64_t row = context->backend->rounded_row_bytes(context, cols), bytes;
    return row > 0 && weft__mul_i64(row, rows, &bytes) ? (size_t)bytes : 0;
}

static weft_status check_desc(weft_context *context, weft_round_desc *desc)
{
    if (desc->flags & ~(uint32_t)WEFT_LINEAR_BATCH_INVARIANT)
        return weft__fail(context, WEFT_EINVAL, "round: unknown flags 0x%x", desc->flags);
    if (desc->cols < 1 || desc->cols % 32 != 0)
        return weft__fail(context, WEFT_EINVAL, "round: cols=%lld is no positive multiple of 32",
                          (long long)desc->cols);
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_round, "x_dtype", &desc->x_dtype));
    return weft__api_most(context, WEFT__OP_round, "max_rows", &desc->max_rows);
}

weft_status weft_round_plan(weft_context *context, const weft_round_desc *user_desc,
                            weft_plan **out)
{
    weft_round_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_round, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_round, &desc, out);
}

weft_status weft_round_run(const weft_plan *plan, const weft_round_args *user_args)
{
    weft_round_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_round, &args, WEFT__KNOWN(&args), user_args));
    const weft_round_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, desc->max_rows));
    if (args.rows == 0)
        return WEFT_OK;
    if (!args.x || !args.rounded)
        return weft__fail(plan->context, WEFT_EINVAL, "round: x and rounded must not be NULL");
    if (!weft__api_stride(&args.x_stride, desc->cols, desc->cols, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "round: the stride is shorter than a row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.x, weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.rounded, 64));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
