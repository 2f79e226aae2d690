// SPDX-License-Identifier: MIT
#include <weft/attention.h>

#include <math.h>

#include "src/api/api_pool.h"
#include "src/base/checked.h"
#include "src/kernels/attention/attention_kernel.h"

static weft_status check_numbers(weft_context *context, const weft_attention_desc *desc)
{
    if (desc->mask != WEFT_MASK_CAUSAL && desc->mask != WEFT_MASK_FULL)
        return weft__fail(context, WEFT_EINVAL, "attention: mask %d is none", (int)desc->mask);
    if (desc->window < 0)
        return weft__fail(context, WEFT_EINVAL, "attention: window=%d is negative", desc->window);
    if (!isfinite(desc->scale))
        return weft__fail(context, WEFT_EINVAL, "attention: scale is not finite");
    if (desc->softcap != 0 && !(desc->softcap >= 1e-30f && desc->softcap <= 1e30f))
        return weft__fail(context, WEFT_EINVAL, "attention: softcap must be 1e-30 to 1e30, or 0");
    if (desc->max_q_tokens < 0 || desc->max_kv_len < 0 || desc->num_splits < 0)
        return weft__fail(
            context, WEFT_EINVAL,
            "attention: max_q_tokens, max_kv_len and num_splits must not be negative");
    if (desc->num_q_heads < 1 || desc->num_q_heads % desc->kv.num_kv_heads != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: num_q_heads=%d is no multiple of num_kv_heads=%d",
                          desc->num_q_heads, desc->kv.num_kv_heads);
    return WEFT_OK;
}

static weft_status check_desc(weft_context *context, weft_attention_desc *desc)
{
    const uint32_t known = WEFT_ATTENTION_BATCH_INVARIANT;
    if (desc->flags & ~known)
        return weft__fail(context, WEFT_EINVAL, "attention: unknown flags 0x%x",
                          desc->flags & ~known);
    if ((desc->q_dtype && desc->q_dtype != WEFT_F32) ||
        (desc->out_dtype && desc->out_dtype != WEFT_F32))
        return weft__fail(context, WEFT_EUNSUPPORTED, "attention: q and out must be f32");
    WEFT__TRY(weft__api_check_layout(context, "attention", &desc->kv));
    WEFT__TRY(check_numbers(context, desc));
    WEFT__TRY(weft__api_most(context, WEFT__OP_attention, "max_seqs", &desc->max_seqs));
    if (desc->max_q_tokens == 0)
        desc->max_q_tokens = desc->max_seqs;
    if (desc->scale == 0)
        desc->scale = 1 / sqrtf((float)desc->kv.head_dim);
    return WEFT_OK;
}

weft_status weft_attention_plan(weft_context *context, const weft_attention_desc *user_desc,
                                weft_plan **out)
{
    weft_attention_desc desc = {0};
    WEFT__TRY(
        weft__api_desc(context, WEFT__OP_attention, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(check_desc(context, &desc));
    return WEFT__API_PLAN(context, WEFT__OP_attention, &desc, out);
}

static weft_status check_lengths(const weft_plan *plan, const weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    const int32_t *cu = args->cu_q_lens;
    if (cu[0] != 0)
        return weft__fail(plan->context, WEFT_EINVAL, "attention: cu_q_lens[0] is %d, not 0",
                          cu[0]);
    for (int32_t s = 0; s < args->num_seqs; s++) {
        int32_t kv_len = args->kv_lens[s];
        if (cu[s + 1] < cu[s])
            return weft__fail(plan->context, WEFT_EINVAL, "attention: cu_q_lens decreases at %d",
                              s + 1);
        if (kv_len < 0 || kv_len > desc->max_kv_len)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: kv_lens[%d]=%d is outside 0..%d", s, kv_len,
                              desc->max_kv_len);
        if (desc->mask == WEFT_MASK_CAUSAL && kv_len < cu[s + 1] - cu[s])
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: sequence %d has %d keys for %d queries under the causal "
                              "mask",
                              s, kv_len, cu[s + 1] - cu[s]);
    }
    if (cu[args->num_seqs] > desc->max_q_tokens)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: %d queries, at most %d are planned", cu[args->num_seqs],
                          desc->max_q_tokens);
    return WEFT_OK;
}

// Largest page number of [first, last) as unsigned, so that negative ones are above INT32_MAX.
static uint32_t largest_page(const int32_t *pages, int64_t first, int64_t last)
{
    uint32_t largest = 0;
    for (int64_t i = first; i < last; i++)
        largest = (uint32_t)pages[i] > largest ? (uint32_t)pages[i] : largest;
    return largest;
}

// Pages that no query sees, to the left of a window, may be gone.
static weft_status check_pages(const weft_plan *plan, const weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    int32_t page_size = desc->kv.page_size;
    for (int32_t s = 0; s < args->num_seqs; s++) {
        int32_t q_len = args->cu_q_lens[s + 1] - args->cu_q_lens[s];
        if (q_len == 0)
            continue;
        struct weft__attention_span seen =
            weft__attention_union(desc->mask, desc->window, q_len, args->kv_lens[s], 0, q_len);
        if (seen.begin >= seen.end)
            continue;
        if (!args->page_table)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: sequence %d has keys, so page_table must not be NULL", s);
        const int32_t *pages = args->page_table + s * args->page_table_stride;
        uint32_t largest =
            largest_page(pages, seen.begin / page_size, weft__ceil_div(seen.end, page_size));
        if (largest > INT32_MAX || largest >= args->pool.num_pages)
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: sequence %d has page %d, the pool has %lld pages", s,
                              (int)largest, (long long)args->pool.num_pages);
    }
    return WEFT_OK;
}

static weft_status settle_strides(const weft_plan *plan, weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    int64_t row = desc->kv.head_dim, packed = row * desc->num_q_heads;
    int64_t tokens = desc->max_q_tokens, heads = desc->num_q_heads;
    if (!weft__api_stride(&args->q_head_stride, row, row, heads) ||
        !weft__api_stride(&args->q_token_stride, packed, row, tokens) ||
        !weft__api_stride(&args->out_head_stride, row, row, heads) ||
        !weft__api_stride(&args->out_token_stride, packed, row, tokens))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: a stride of q or out is shorter than head_dim, or too long");
    if (!weft__api_stride(&args->page_table_stride, 0, 0, args->num_seqs))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: page_table_stride=%lld is negative, or too long",
                          (long long)args->page_table_stride);
    return weft__api_aligned(plan,
                             (uintptr_t)args->q | (uintptr_t)args->out | (uintptr_t)args->lse |
                                 (uintptr_t)args->cu_q_lens | (uintptr_t)args->kv_lens |
                                 (uintptr_t)args->page_table,
                             sizeof(float));
}

weft_status weft_attention_run(const weft_plan *plan, const weft_attention_args *user_args)
{
    weft_attention_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_attention, &args, WEFT__KNOWN(&args), user_args));
    const weft_attention_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "num_seqs", args.num_seqs, desc->max_seqs));
    if (args.num_seqs == 0)
        return WEFT_OK;
    if (!args.q || !args.out || !args.cu_q_lens || !args.kv_lens)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: q, out, cu_q_lens and kv_lens must not be NULL");
    WEFT__TRY(settle_strides(plan, &args));
    WEFT__TRY(weft__api_settle_pool(plan, &desc->kv, &args.pool));
    if (weft__api_is_host(plan, args.kv_lens)) {
        WEFT__TRY(check_lengths(plan, &args));
        WEFT__TRY(check_pages(plan, &args));
    }
    if (!args.page_table) { // there are no keys: any row of no pages will do
        args.page_table = args.kv_lens;
        args.page_table_stride = 0;
    }
    WEFT__TRY(weft__api_workspace(plan, args.workspace, args.workspace_bytes));
    return weft__api_submit(plan, &args, sizeof args, args.stream);
}

bool weft_attention_supported(weft_context *context, const weft_attention_desc *desc,
                              const char **reason)
{
    weft_plan *plan = NULL;
    weft_status status = weft_attention_plan(context, desc, &plan);
    return weft__api_supported(context, status, plan, reason);
}
