// SPDX-License-Identifier: MIT
#include <weft/merge.h>

#include "src/api/api.h"
#include "src/base/checked.h"
#include "src/kernels/merge/merge_kernel.h"

static weft_status settle_desc(weft_context *context, weft_merge_desc *desc)
{
    if (desc->dim < 1 || desc->dim > WEFT__MERGE_MAX_DIM)
        return weft__fail(context, WEFT_EINVAL, "merge: dim=%d is outside 1..%d", desc->dim,
                          WEFT__MERGE_MAX_DIM);
    if (desc->num_heads < 1 || desc->max_states < 0)
        return weft__fail(context, WEFT_EINVAL,
                          "merge: num_heads must be positive, max_states not negative");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_merge, "dtype", &desc->dtype));
    desc->out_dtype = desc->out_dtype ? desc->out_dtype : desc->dtype;
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_merge, "out_dtype", &desc->out_dtype));
    desc->max_states = desc->max_states ? desc->max_states : 2;
    return weft__api_most(context, WEFT__OP_merge, "max_tokens", &desc->max_tokens);
}

weft_status weft_merge_plan(weft_context *context, const weft_merge_desc *user_desc,
                            weft_plan **out)
{
    weft_merge_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_merge, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(settle_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_merge, &desc, out);
}

// States may lie anywhere, in either direction: only their number times the stride must fit.
static bool settle_states(int64_t *stride, int64_t packed, int64_t count)
{
    int64_t bytes;
    *stride = *stride ? *stride : packed;
    return *stride > -INT64_MAX / 16 &&
           weft__mul_i64(*stride < 0 ? -*stride : *stride, count, &bytes) && bytes < INT64_MAX / 16;
}

static weft_status settle_strides(const weft_plan *plan, weft_merge_args *args)
{
    const weft_merge_desc *desc = plan->desc;
    int64_t dim = desc->dim, heads = desc->num_heads;
    if (!weft__api_stride(&args->x_head_stride, dim, dim, heads) ||
        !weft__api_stride(&args->x_token_stride, dim * heads, dim, args->tokens) ||
        !weft__api_stride(&args->out_head_stride, dim, dim, heads) ||
        !weft__api_stride(&args->out_token_stride, dim * heads, dim, args->tokens) ||
        !settle_states(&args->x_state_stride, args->x_token_stride * args->tokens,
                       args->num_states) ||
        !settle_states(&args->lse_state_stride, heads * args->tokens, args->num_states))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "merge: a stride is shorter than a row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->x, weft__api_alignment(desc->dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->out, weft__api_alignment(desc->out_dtype)));
    return weft__api_aligned(plan, (uintptr_t)args->lse | (uintptr_t)args->out_lse, sizeof(float));
}

weft_status weft_merge_run(const weft_plan *plan, const weft_merge_args *user_args)
{
    weft_merge_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_merge, &args, WEFT__KNOWN(&args), user_args));
    const weft_merge_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "tokens", args.tokens, desc->max_tokens));
    WEFT__TRY(weft__api_count(plan, "num_states", args.num_states, desc->max_states));
    if (args.tokens == 0)
        return WEFT_OK;
    if (!args.out || (args.num_states > 0 && (!args.x || !args.lse)))
        return weft__fail(plan->context, WEFT_EINVAL, "merge: x, lse and out must not be NULL");
    WEFT__TRY(settle_strides(plan, &args));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
