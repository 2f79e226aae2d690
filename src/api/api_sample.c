// SPDX-License-Identifier: MIT
#include <math.h>

#include <weft/sample.h>

#include "src/api/api.h"

static weft_status check_desc(weft_context *context, weft_sample_desc *desc)
{
    if (desc->vocab < 1)
        return weft__fail(context, WEFT_EINVAL, "sample: vocab must be positive");
    WEFT__TRY(weft__api_dtype(context, WEFT__OP_sample, "logits_dtype", &desc->logits_dtype));
    return weft__api_most(context, WEFT__OP_sample, "max_rows", &desc->max_rows);
}

weft_status weft_sample_plan(weft_context *context, const weft_sample_desc *user_desc,
                             weft_plan **out)
{
    weft_sample_desc desc = {0};
    WEFT__TRY(weft__api_desc(context, WEFT__OP_sample, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_sample, &desc, out);
}

// What is wrong with the parameters of a row, or NULL.
static const char *check_params(const weft_plan *plan, const weft_sample_params *params,
                                int32_t vocab)
{
    if (!(params->temperature >= 0) || !isfinite(params->temperature))
        return "temperature must be finite and not negative";
    for (int i = 0; i < 3; i++)
        if (params->reserved[i])
            return "sets members unknown to this version";
    if (params->top_k < 0)
        return "top_k must not be negative";
    if (!(params->top_p >= 0 && params->top_p <= 1) || !(params->min_p >= 0 && params->min_p <= 1))
        return "top_p and min_p must be in [0, 1]";
    if (!(params->repetition_penalty >= 0) || !isfinite(params->repetition_penalty))
        return "repetition_penalty must be finite and not negative";
    if (!isfinite(params->frequency_penalty) || !isfinite(params->presence_penalty))
        return "frequency_penalty and presence_penalty must be finite";
    if (params->history_len < 0 || (params->history_len > 0 && !params->history))
        return "history_len needs a history";
    if (params->history_room < 0)
        return "history_room must not be negative";
    if ((uintptr_t)params->history % sizeof(int32_t) != 0)
        return "the history is not aligned to 4 bytes";
    bool seen = params->history_len > 0 && weft__api_is_host(plan, params->history);
    for (int64_t i = 0; seen && i < params->history_len; i++)
        if (params->history[i] < 0 || params->history[i] >= vocab)
            return "a token of the history is outside the vocabulary";
    return NULL;
}

weft_status weft_sample_run(const weft_plan *plan, const weft_sample_args *user_args)
{
    weft_sample_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_sample, &args, WEFT__KNOWN(&args), user_args));
    const weft_sample_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "rows", args.rows, desc->max_rows));
    if (args.rows == 0)
        return WEFT_OK;
    if (!args.logits || !args.params || !args.tokens)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "sample: logits, params and tokens must not be NULL");
    if (!weft__api_stride(&args.logits_stride, desc->vocab, desc->vocab, args.rows))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "sample: the stride is shorter than a row, or too long");
    WEFT__TRY(
        weft__api_aligned(plan, (uintptr_t)args.logits, weft__api_alignment(desc->logits_dtype)));
    WEFT__TRY(
        weft__api_aligned(plan, (uintptr_t)args.tokens | (uintptr_t)args.logprobs, sizeof(float)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args.params | (uintptr_t)args.next,
                                _Alignof(weft_sample_params)));
    bool seen = weft__api_is_host(plan, args.params);
    for (int32_t i = 0; seen && i < args.rows; i++) {
        const char *wrong = check_params(plan, &args.params[i], desc->vocab);
        if (wrong)
            return weft__fail(plan->context, WEFT_EINVAL, "sample: row %d: %s", i, wrong);
    }
    WEFT__TRY(weft__api_workspace(plan, args.workspace, args.workspace_bytes));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}
