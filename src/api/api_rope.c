// SPDX-License-Identifier: MIT
#include <string.h>

#include <weft/rope.h>

#include "src/api/api_rope.h"
#include "src/base/checked.h"
#include "src/kernels/rope/rope_kernel.h"

weft_status weft__api_settle_rope(weft_context *context, const char *op, weft_rope_params *params,
                                  int32_t head_dim)
{
    struct weft__rope_frequencies made;
    WEFT__TRY(weft__api_tail(context, "weft_rope_params", params->reserved, 4));
    const char *wrong = weft__rope_frequencies_make(params, head_dim, &made);
    if (wrong && strcmp(op, "rope") == 0)
        return weft__fail(context, WEFT_EINVAL, "rope: %s", wrong);
    if (wrong)
        return weft__fail(context, WEFT_EINVAL, "%s: rope: %s", op, wrong);
    params->rotary_dim = made.rotary_dim;
    return WEFT_OK;
}

static weft_status check_desc(weft_context *context, weft_rope_desc *desc)
{
    if (desc->num_heads < 1 || desc->head_dim < 1)
        return weft__fail(context, WEFT_EINVAL, "rope: num_heads and head_dim must be positive");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_rope, "dtype", &desc->dtype));
    return weft__api_most(context, WEFT__OP_rope, "max_tokens", &desc->max_tokens);
}

weft_status weft_rope_plan(weft_context *context, const weft_rope_desc *user_desc, weft_plan **out)
{
    weft_rope_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_rope, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    WEFT__TRY(weft__api_settle_rope(context, "rope", &desc.rope, desc.head_dim));
    const struct weft__plan_array arrays[] = {WEFT__VARIANT(&desc), WEFT__FREQ_FACTORS(&desc.rope)};
    return weft__api_plan(context, WEFT__OP_rope, &desc, sizeof desc, arrays, 2, out);
}

weft_status weft_rope_run(const weft_plan *plan, const weft_rope_args *user_args)
{
    weft_rope_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_rope, &args, WEFT__KNOWN(&args), user_args));
    const weft_rope_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "tokens", args.tokens, desc->max_tokens));
    if (args.tokens == 0)
        return WEFT_OK;
    if (!args.x || !args.positions)
        return weft__fail(plan->context, WEFT_EINVAL, "rope: x and positions must not be NULL");
    int64_t token = (int64_t)desc->num_heads * desc->head_dim;
    if (!weft__api_stride(&args.token_stride, token, token, args.tokens))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "rope: token_stride is shorter than the heads of a token, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.x, weft__api_alignment(desc->dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.positions, sizeof(int32_t)));
    bool seen = weft__api_is_host(plan, args.positions);
    for (int32_t i = 0; seen && i < args.tokens; i++)
        if (args.positions[i] < 0)
            return weft__fail(plan->context, WEFT_EINVAL, "rope: positions[%d] = %d is negative", i,
                              args.positions[i]);
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}

weft_status weft_rope_frequencies(const weft_rope_params *params, int32_t head_dim,
                                  double *frequencies, float *attention_factor)
{
    struct weft__rope_frequencies made;
    if (!params || !frequencies || !attention_factor ||
        weft__rope_frequencies_make(params, head_dim, &made))
        return WEFT_EINVAL;
    memcpy(frequencies, made.radians, sizeof *frequencies * (size_t)(made.rotary_dim / 2));
    *attention_factor = made.attention_factor;
    return WEFT_OK;
}
