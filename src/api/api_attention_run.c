// SPDX-License-Identifier: MIT
// Runs of attention: what of their arguments the host can see is held against the plan.
#include <weft/attention.h>

#include "src/api/api_attention.h"
#include "src/api/api_batch.h"
#include "src/api/api_pool.h"
#include "src/api/api_seqs.h"
#include "src/base/checked.h"
#include "src/kernels/attention/attention_kernel.h"

// The members that a descriptor's flags and mask ask for.
static weft_status check_wanted(const weft_plan *plan, const weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    const struct {
        bool wanted, given;
        const char *name;
    } members[] = {
        {desc->flags & WEFT_ATTENTION_SINKS, args->sinks, "sinks"},
        {desc->flags & WEFT_ATTENTION_ALIBI, args->alibi_slopes, "alibi_slopes"},
        {desc->mask == WEFT_MASK_TREE, args->tree_parents, "tree_parents"},
        {desc->mask == WEFT_MASK_BITS, args->mask_bits, "mask_bits"},
        {desc->flags & WEFT_ATTENTION_SPARSE_LISTS, args->sparse_blocks, "sparse_blocks"},
        {desc->flags & WEFT_ATTENTION_SPARSE_LISTS, args->sparse_starts, "sparse_starts"},
        {desc->flags & WEFT_ATTENTION_SPARSE_LISTS, args->sparse_first, "sparse_first"},
        {desc->flags & WEFT_ATTENTION_APPEND, args->append, "append"},
    };
    if (args->q_scales && !weft__api_is_fp8(desc->q_dtype))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: q_scales are given, the queries are %s: only fp8 has scales",
                          weft_dtype_name(desc->q_dtype));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].wanted != members[i].given)
            return weft__fail(plan->context, WEFT_EINVAL,
                              members[i].wanted ? "attention: the plan wants %s, which are NULL"
                                                : "attention: %s are given, the plan has none",
                              members[i].name);
    return WEFT_OK;
}

// Parents come before their children, so that every walk up a tree ends.
static weft_status check_tree(const weft_plan *plan, const weft_attention_args *args,
                              const int32_t *cu, int32_t num_seqs)
{
    for (int32_t s = 0; s < num_seqs; s++)
        for (int32_t i = cu[s]; i < cu[s + 1]; i++)
            if (args->tree_parents[i] < -1 || args->tree_parents[i] >= i - cu[s])
                return weft__fail(plan->context, WEFT_EINVAL,
                                  "attention: tree_parents[%d]=%d is neither -1 nor a query of its "
                                  "sequence before it",
                                  i, args->tree_parents[i]);
    return WEFT_OK;
}

static weft_status settle_bits(const weft_plan *plan, weft_attention_args *args, const int32_t *cu,
                               const int32_t *kv_lens, int32_t num_seqs)
{
    int64_t widest = 0;
    for (int32_t s = 0; s < num_seqs; s++) {
        int64_t q_len = cu[s + 1] - cu[s];
        int64_t columns = args->mask_columns ? args->mask_columns[s] : q_len;
        if (columns < 0 || columns > kv_lens[s])
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: sequence %d has %lld mask columns for %d keys", s,
                              (long long)columns, kv_lens[s]);
        widest = columns > widest && q_len > 0 ? columns : widest;
    }
    if (args->mask_stride == 0)
        args->mask_stride = weft__ceil_div(widest, 32);
    if (args->mask_stride < weft__ceil_div(widest, 32) || args->mask_stride > INT32_MAX)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: mask_stride=%lld words is less than %lld columns need",
                          (long long)args->mask_stride, (long long)widest);
    return WEFT_OK;
}

// Blocks of a list in ascending order; list after list of a sequence.
static weft_status check_lists(const weft_plan *plan, const weft_attention_args *args,
                               const int32_t *cu, int32_t num_seqs)
{
    const weft_attention_desc *desc = plan->desc;
    int64_t heads = desc->flags & WEFT_ATTENTION_SPARSE_HEADS ? desc->kv.num_kv_heads : 1;
    for (int32_t s = 0; s < num_seqs; s++) {
        int64_t lists = weft__ceil_div(cu[s + 1] - cu[s], desc->sparse_queries);
        int64_t first = args->sparse_first[s], last = first + lists;
        if (lists > 0 && (first < 0 || last > INT32_MAX / heads))
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: sparse_first[%d]=%d is negative, or too large", s,
                              args->sparse_first[s]);
        for (int64_t n = first * heads; n < last * heads; n++) {
            int32_t begin = args->sparse_starts[n], end = args->sparse_starts[n + 1];
            bool fine = begin >= 0 && begin <= end;
            for (int32_t i = begin; fine && i < end; i++)
                fine = args->sparse_blocks[i] > (i > begin ? args->sparse_blocks[i - 1] : -1);
            if (!fine)
                return weft__fail(
                    plan->context, WEFT_EINVAL,
                    "attention: list %lld of sparse_blocks is not in ascending order, "
                    "or its sparse_starts decrease",
                    (long long)n);
        }
    }
    return WEFT_OK;
}

// Arrays of a batch's runs may lie on the device, where the host cannot look at them.
static weft_status check_scattered(const weft_plan *plan, weft_attention_args *args,
                                   const int32_t *cu, const int32_t *kv_lens, int32_t num_seqs)
{
    const weft_attention_desc *desc = plan->desc;
    if (desc->flags & WEFT_ATTENTION_SPARSE_LISTS && weft__api_is_host(plan, args->sparse_blocks) &&
        weft__api_is_host(plan, args->sparse_starts) && weft__api_is_host(plan, args->sparse_first))
        WEFT__TRY(check_lists(plan, args, cu, num_seqs));
    if (desc->mask == WEFT_MASK_TREE)
        return weft__api_is_host(plan, args->tree_parents) ? check_tree(plan, args, cu, num_seqs)
                                                           : WEFT_OK;
    if (desc->mask != WEFT_MASK_BITS)
        return WEFT_OK;
    if (!args->mask_columns || weft__api_is_host(plan, args->mask_columns))
        return settle_bits(plan, args, cu, kv_lens, num_seqs);
    return args->mask_stride > 0
               ? WEFT_OK
               : weft__fail(plan->context, WEFT_EINVAL,
                            "attention: mask_columns lie on the device: mask_stride must be given");
}

static weft_status settle_strides(const weft_plan *plan, weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    int64_t row = desc->kv.head_dim, v_row = desc->kv.v_dim, heads = desc->num_q_heads;
    int64_t tokens = desc->max_q_tokens;
    if (!weft__api_stride(&args->q_head_stride, row, row, heads) ||
        !weft__api_stride(&args->q_token_stride, row * heads, row, tokens) ||
        !weft__api_stride(&args->out_head_stride, v_row, v_row, heads) ||
        !weft__api_stride(&args->out_token_stride, v_row * heads, v_row, tokens))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: a stride of q or out is shorter than head_dim, or too long");
    if (!weft__api_stride(&args->page_table_stride, 0, 0,
                          weft__api_table_rows(args->seq_rows, args->num_seqs)))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: page_table_stride=%lld is negative, or too long",
                          (long long)args->page_table_stride);
    if (!weft__api_stride(&args->q_scale_token_stride, 0, 0, tokens) ||
        !weft__api_stride(&args->q_scale_head_stride, 0, 0, heads))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: a stride of q_scales is negative, or too long");
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->q, weft__api_alignment(desc->q_dtype)));
    WEFT__TRY(weft__api_aligned(plan, (uintptr_t)args->out, weft__api_alignment(desc->out_dtype)));
    return weft__api_aligned(plan,
                             (uintptr_t)args->lse | (uintptr_t)args->cu_q_lens |
                                 (uintptr_t)args->kv_lens | (uintptr_t)args->page_table |
                                 (uintptr_t)args->page_indices | (uintptr_t)args->page_starts |
                                 (uintptr_t)args->seq_rows | (uintptr_t)args->kv_starts |
                                 (uintptr_t)args->sinks | (uintptr_t)args->alibi_slopes |
                                 (uintptr_t)args->tree_parents | (uintptr_t)args->mask_bits |
                                 (uintptr_t)args->mask_columns | (uintptr_t)args->sparse_blocks |
                                 (uintptr_t)args->sparse_starts | (uintptr_t)args->sparse_first |
                                 (uintptr_t)args->q_scales | (uintptr_t)args->num_seqs_at,
                             sizeof(float));
}

// Sequences that count now, of at most num_seqs; the lengths of none are looked at where the host cannot read how many.
static weft_status count_seqs(const weft_plan *plan, const weft_attention_args *args,
                              int32_t *count)
{
    const weft_attention_desc *desc = plan->desc;
    *count = args->num_seqs;
    if (!args->num_seqs_at)
        return WEFT_OK;
    if (!args->page_table && !args->page_indices)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: with num_seqs_at a page_table or page_indices must be given");
    if (desc->mask == WEFT_MASK_BITS && args->mask_stride == 0)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: with num_seqs_at mask_stride must be given");
    *count = weft__api_is_host(plan, args->num_seqs_at) ? *args->num_seqs_at : 0;
    if (*count < 0 || *count > args->num_seqs)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: num_seqs_at holds %d, which is outside 0..num_seqs=%d",
                          *count, args->num_seqs);
    return WEFT_OK;
}

// Lengths and pages of a run without a batch.
static weft_status check_seqs(const weft_plan *plan, weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    weft_context *context = plan->context;
    if (!args->cu_q_lens || !args->kv_lens)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: q, out, cu_q_lens and kv_lens must not be NULL");
    if (args->page_indices && (!args->page_starts || args->page_table))
        return weft__fail(context, WEFT_EINVAL,
                          "attention: page_indices need page_starts, and no page_table");
    int32_t num_seqs;
    WEFT__TRY(count_seqs(plan, args, &num_seqs));
    const struct weft__api_seqs seqs = {
        .op = "attention",
        .num_seqs = num_seqs,
        .page_size = desc->kv.page_size,
        .max_q_tokens = desc->max_q_tokens,
        .max_kv_len = desc->max_kv_len,
        .num_pages = args->pool.num_pages,
        .cu_q_lens = args->cu_q_lens,
        .kv_lens = args->kv_lens,
        .kv_starts = args->kv_starts,
        .page_table = args->page_table,
        .page_table_stride = args->page_table_stride,
        .page_indices = args->page_indices,
        .page_starts = args->page_starts,
        .seq_rows = args->seq_rows,
    };
    if (context->backend->is_host(context, args->cu_q_lens)) {
        WEFT__TRY(weft__api_check_lengths(context, &seqs, desc));
        WEFT__TRY(weft__api_check_pages(context, &seqs, desc));
        WEFT__TRY(check_scattered(plan, args, args->cu_q_lens, args->kv_lens, num_seqs));
    }
    if (!args->page_table &&
        !args->page_indices) { // there are no keys: any row of no pages will do
        args->page_table = args->kv_lens;
        args->page_table_stride = 0;
        args->seq_rows = NULL;
    }
    return WEFT_OK;
}

static weft_status check_batch(const weft_plan *plan, weft_attention_args *args)
{
    if (args->num_seqs || args->cu_q_lens || args->kv_lens || args->page_table ||
        args->page_indices || args->page_starts || args->seq_rows || args->kv_starts ||
        args->num_seqs_at)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: num_seqs, lengths and pages are the batch's: leave them 0");
    WEFT__TRY(weft__api_take_batch(plan, args->batch, args->pool.num_pages));
    if (args->batch->on_device) {
        const weft_attention_desc *desc = plan->desc;
        if (desc->mask != WEFT_MASK_BITS || args->mask_stride > 0)
            return WEFT_OK;
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: lengths lie on the device: mask_stride must be given");
    }
    return check_scattered(plan, args, args->batch->cu_q_lens, args->batch->kv_lens,
                           args->batch->num_seqs);
}

weft_status weft_attention_run(const weft_plan *plan, const weft_attention_args *user_args)
{
    struct weft__attention_args run = {0};
    weft_attention_args args;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_attention, &args, WEFT__KNOWN(&args), user_args));
    const weft_attention_desc *desc = plan->desc;
    WEFT__TRY(weft__api_count(plan, "num_seqs", args.num_seqs, desc->max_seqs));
    if (args.batch ? args.batch->num_seqs == 0 : args.num_seqs == 0)
        return WEFT_OK;
    if (!args.q || !args.out)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: q, out, cu_q_lens and kv_lens must not be NULL");
    WEFT__TRY(settle_strides(plan, &args));
    WEFT__TRY(weft__api_settle_pool(plan, &desc->kv, &args.pool));
    WEFT__TRY(check_wanted(plan, &args));
    WEFT__TRY(args.batch ? check_batch(plan, &args) : check_seqs(plan, &args));
    WEFT__TRY(weft__api_workspace(plan, args.workspace, args.workspace_bytes));
    if (desc->flags & (WEFT_ATTENTION_APPEND | WEFT_ATTENTION_OUT_ROUNDED))
        return weft__api_run_parts(plan, &args);
    run.base = args;
    return weft__api_submit(plan, &run, sizeof run, args.stream);
}
