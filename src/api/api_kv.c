// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/kv.h>

#include "src/api/api_batch.h"
#include "src/api/api_pool.h"
#include "src/api/api_rope.h"

static weft_status check_desc(weft_context *context, weft_kv_append_desc *desc)
{
    WEFT__TRY(weft__api_settle_layout(context, "kv", &desc->layout));
    if (desc->num_q_heads < 0)
        return weft__fail(context, WEFT_EINVAL, "kv: num_q_heads is negative");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_kv, "x_dtype", &desc->x_dtype));
    if (desc->reserved0)
        return weft__fail(context, WEFT_EINVAL, "kv: reserved0 is not 0");
    if (desc->q_growth_length < 0 || !isfinite(desc->q_growth) ||
        (desc->q_growth_length ? desc->num_q_heads == 0 : desc->q_growth != 0))
        return weft__fail(context, WEFT_EINVAL,
                          "kv: queries grow by a finite number over a positive length, and there "
                          "are some");
    if (desc->q_out_dtype)
        WEFT__TRY(weft__api_dtype(context, WEFT__OP_kv, "q_out_dtype", &desc->q_out_dtype));
    return weft__api_most(context, WEFT__OP_kv, "max_tokens", &desc->max_tokens);
}

weft_status weft_kv_append_plan(weft_context *context, const weft_kv_append_desc *user_desc,
                                weft_plan **out)
{
    weft_kv_append_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_kv, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    if (!desc.rope)
        return WEFT__API_PLAN(context, WEFT__OP_kv, &desc, out);
    weft_rope_params rope = *desc.rope;
    WEFT__TRY(weft__api_settle_rope(context, "kv", &rope, desc.layout.head_dim));
    desc.rope = &rope;
    const struct weft__plan_array arrays[] = {
        WEFT__VARIANT(&desc), WEFT__FREQ_FACTORS(&rope), {&desc.rope, sizeof rope}};
    return weft__api_plan(context, WEFT__OP_kv, &desc, sizeof desc, arrays, 3, out);
}

static bool wants_positions(const weft_kv_append_desc *desc)
{
    return desc->rope || desc->q_growth_length;
}

static weft_status check_tokens(const weft_plan *plan, const weft_kv_append_args *args)
{
    const weft_kv_append_desc *desc = plan->desc;
    int64_t slots = args->pool.num_pages > INT32_MAX / desc->layout.page_size
                        ? INT64_C(1) << 31
                        : args->pool.num_pages * desc->layout.page_size;
    if (!weft__api_is_host(plan, args->slots))
        return WEFT_OK;
    const bool seen = wants_positions(desc) && weft__api_is_host(plan, args->positions);
    for (int32_t i = 0; i < args->tokens; i++) {
        int32_t slot = args->slots[i];
        if (slot < -1 || slot >= slots)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "kv: slots[%d]=%d is outside the pool's %lld slots", i, slot,
                              (long long)slots);
        if (seen && args->positions[i] < 0)
            return weft__fail(plan->context, WEFT_EINVAL, "kv: positions[%d]=%d is negative", i,
                              args->positions[i]);
    }
    return WEFT_OK;
}

static weft_status check_batch(const weft_plan *plan, const weft_kv_append_args *args)
{
    if (args->slots || args->positions || args->tokens != args->batch->num_tokens)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "kv: slots and positions are the batch's: leave them NULL, and tokens=%d "
                          "must be its %d",
                          args->tokens, args->batch->num_tokens);
    return weft__api_take_batch(plan, args->batch, args->pool.num_pages);
}

weft_status weft_kv_append_run(const weft_plan *plan, const weft_kv_append_args *user_args)
{
    weft_kv_append_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_kv, &args, WEFT__KNOWN(&args), user_args));
    const weft_kv_append_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "tokens", args.tokens, desc->max_tokens));
    if (args.tokens == 0)
        return WEFT_OK;
    if (!args.k || (!args.batch && (!args.slots || (wants_positions(desc) && !args.positions))))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "kv: k, slots and, with rope or growth, positions must not be NULL");
    if (args.q && desc->num_q_heads == 0)
        return weft__fail(plan->context, WEFT_EINVAL, "kv: q is given but num_q_heads was not");
    if ((args.q_out != NULL) != (desc->q_out_dtype && args.q))
        return weft__fail(
            plan->context, WEFT_EINVAL,
            "kv: q_out must be given with q, and just where the plan has q_out_dtype");
    int64_t row = (int64_t)desc->layout.num_kv_heads * desc->layout.head_dim;
    int64_t v_row = (int64_t)desc->layout.num_kv_heads * desc->layout.v_dim;
    int64_t q_row = (int64_t)desc->num_q_heads * desc->layout.head_dim;
    if (!weft__api_stride(&args.k_token_stride, row, row, args.tokens) ||
        !weft__api_stride(&args.v_token_stride, v_row, v_row, args.tokens) ||
        !weft__api_stride(&args.q_token_stride, q_row, q_row, args.tokens) ||
        !weft__api_stride(&args.q_out_token_stride, q_row, q_row, args.tokens))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "kv: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.k | (uintptr_t)args.v | (uintptr_t)args.q,
                                weft__api_alignment(desc->x_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.slots | (uintptr_t)args.positions,
                                sizeof(int32_t)));
    if (args.q_out)
        WEFT__TRY(
            weft__api_aligned(plan, (uintptr_t)args.q_out, weft__api_alignment(desc->q_out_dtype)));
    WEFT__TRY(weft__api_settle_pool(plan, &desc->layout, &args.pool));
    if ((desc->layout.scaling && args.pool.k.scale_seq_stride) ||
        (desc->layout.v_scaling && args.pool.v.scale_seq_stride))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "kv: tokens belong to no sequence here: scale_seq_stride must be 0");
    WEFT__TRY(args.batch ? check_batch(plan, &args) : check_tokens(plan, &args));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
