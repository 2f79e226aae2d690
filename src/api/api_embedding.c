// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/embedding.h>

#include "src/api/api.h"
#include "src/base/checked.h"

static weft_status check_scales(weft_context *context, weft_embedding_desc *desc)
{
    int32_t block = weft_dtype_block_elems(desc->table_dtype);
    if (desc->scale_cols < 0 || desc->scale_rows < 0)
        return weft__fail(context, WEFT_EINVAL, "embedding: scale_cols or scale_rows is negative");
    desc->scale_cols = desc->scale_cols ? desc->scale_cols : block > 1 ? block : desc->dim;
    desc->scale_rows = desc->scale_rows ? desc->scale_rows : 1;
    if (desc->scale_dtype == WEFT_DTYPE_NONE)
        return WEFT_OK;
    return weft__api_dtype(context, WEFT__OP_embedding, "scale_dtype", &desc->scale_dtype);
}

static weft_status settle_scales(const weft_plan *plan, weft_embedding_args *args)
{
    const weft_embedding_desc *desc = plan->desc;
    int64_t row = (desc->dim - 1) / desc->scale_cols + 1;
    if (desc->scale_dtype == WEFT_DTYPE_NONE)
        return !args->scales && !args->biases
                   ? WEFT_OK
                   : weft__fail(plan->context, WEFT_EINVAL,
                                "embedding: scales or biases that the plan has no scale_dtype for");
    if (!args->scales)
        return weft__fail(plan->context, WEFT_EINVAL, "embedding: scales must not be NULL");
    if (!weft__api_stride(&args->scale_stride, row, row, desc->rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "embedding: scale_stride is shorter than its row, or too long");
    return weft__api_aligned(plan, (uintptr_t)args->scales | (uintptr_t)args->biases,
                             weft__api_alignment(desc->scale_dtype));
}

static weft_status check_desc(weft_context *context, weft_embedding_desc *desc)
{
    if (weft_dtype_block_elems(desc->table_dtype) == 0)
        return weft__fail(context, WEFT_EINVAL, "embedding: table_dtype %d is no format",
                          (int)desc->table_dtype);
    if (desc->rows < 1 || desc->dim < 1)
        return weft__fail(context, WEFT_EINVAL, "embedding: rows and dim must be positive");
    if (desc->dim % weft_dtype_block_elems(desc->table_dtype) != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "embedding: dim=%lld is no whole number of %s blocks",
                          (long long)desc->dim, weft_dtype_name(desc->table_dtype));
    int64_t row = weft_dtype_row_bytes(desc->table_dtype, desc->dim), bytes;
    if (row < 0 || !weft__mul_i64(row, desc->rows, &bytes))
        return weft__fail(context, WEFT_EOVERFLOW, "embedding: the table's bytes do not fit");
    if (!isfinite(desc->scale))
        return weft__fail(context, WEFT_EINVAL, "embedding: scale is not finite");
    if (desc->scale == 0)
        desc->scale = 1;
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_embedding, "y_dtype", &desc->y_dtype));
    WEFT__TRY(check_scales(context, desc));
    return weft__api_most(context, WEFT__OP_embedding, "max_tokens", &desc->max_tokens);
}

weft_status weft_embedding_plan(weft_context *context, const weft_embedding_desc *user_desc,
                                weft_plan **out)
{
    weft_embedding_desc desc = {0};
    WEFT__TRY(
        weft__api_desc(context, WEFT__OP_embedding, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_embedding, &desc, out);
}

weft_status weft_embedding_run(const weft_plan *plan, const weft_embedding_args *user_args)
{
    weft_embedding_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_embedding, &args, WEFT__KNOWN(&args), user_args));
    const weft_embedding_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "tokens", args.tokens, desc->max_tokens));
    if (args.tokens == 0)
        return WEFT_OK;
    if (!args.table || !args.ids || !args.y)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "embedding: table, ids and y must not be NULL");
    weft_dtype format = desc->table_dtype;
    int64_t row = weft_dtype_row_bytes(format, desc->dim);
    if (!weft__api_stride(&args.table_stride_bytes, row, row, desc->rows) ||
        !weft__api_stride(&args.y_stride, desc->dim, desc->dim, args.tokens))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "embedding: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.ids, sizeof(int32_t)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.y | (uintptr_t)args.residual,
                                weft__api_alignment(desc->y_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.table | (uintptr_t)args.table_stride_bytes,
                                weft__api_alignment(format)));
    WEFT__TRY(settle_scales(plan, &args));
    bool seen = weft__api_is_host(plan, args.ids);
    for (int32_t i = 0; seen && i < args.tokens; i++)
        if (args.ids[i] < 0 || args.ids[i] >= desc->rows)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "embedding: ids[%d] = %d is outside the table of %lld rows", i,
                              args.ids[i], (long long)desc->rows);
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
