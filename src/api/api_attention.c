// SPDX-License-Identifier: MIT
#include <weft/attention.h>

#include <math.h>

#include "src/api/api_attention.h"
#include "src/api/api_batch.h"
#include "src/api/api_pool.h"
#include "src/api/api_seqs.h"
#include "src/base/checked.h"
#include "src/kernels/attention/attention_kernel.h"

enum { MOST_TILE_ROWS = 4096 };

static weft_status check_mask(weft_context *context, const weft_attention_desc *desc)
{
    if ((unsigned)desc->mask > WEFT_MASK_BITS)
        return weft__fail(context, WEFT_EINVAL, "attention: mask %d is none", (int)desc->mask);
    if (desc->window < 0 || desc->window_right < 0)
        return weft__fail(context, WEFT_EINVAL, "attention: window=%d is negative",
                          desc->window < 0 ? desc->window : desc->window_right);
    if (desc->window_right > 0 && desc->mask != WEFT_MASK_FULL)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: window_right needs the full mask: the others see nothing, or "
                          "what they say, to the right");
    if (desc->local_chunk < 0)
        return weft__fail(context, WEFT_EINVAL, "attention: local_chunk=%d is negative",
                          desc->local_chunk);
    if (desc->ring_len < 0 ||
        (desc->ring_len > 0 && (desc->window < 1 || desc->flags & WEFT_ATTENTION_MASK_VALUE)))
        return weft__fail(context, WEFT_EINVAL,
                          "attention: ring_len=%d: a ring needs a window and the hard mask",
                          desc->ring_len);
    if (desc->mask == WEFT_MASK_TREE && desc->flags & WEFT_ATTENTION_ALIBI)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "attention: ALiBi under the tree mask is not supported");
    if (desc->flags & WEFT_ATTENTION_MASK_VALUE && !isfinite(desc->mask_value))
        return weft__fail(context, WEFT_EINVAL, "attention: mask_value is not finite");
    return WEFT_OK;
}

static weft_status check_sparse(weft_context *context, const weft_attention_desc *desc)
{
    const bool bands = desc->flags & WEFT_ATTENTION_SPARSE;
    const bool lists = desc->flags & WEFT_ATTENTION_SPARSE_LISTS;
    if (bands ? desc->sparse_block < 1 || desc->sparse_local < 0 || desc->sparse_stride < 1 ||
                    desc->sparse_rank < 0
              : desc->sparse_block || desc->sparse_local || desc->sparse_stride ||
                    desc->sparse_head_step || desc->sparse_rank)
        return weft__fail(context, WEFT_EINVAL,
                          bands ? "attention: sparse_block=%d and sparse_stride must be positive, "
                                  "sparse_local and sparse_rank not negative"
                                : "attention: sparse_block=%d, sparse_local, sparse_stride, "
                                  "sparse_head_step and sparse_rank need WEFT_ATTENTION_SPARSE",
                          desc->sparse_block);
    if (lists ? desc->sparse_queries < 1 || desc->sparse_keys < 1
              : desc->sparse_queries || desc->sparse_keys ||
                    desc->flags & WEFT_ATTENTION_SPARSE_HEADS)
        return weft__fail(context, WEFT_EINVAL,
                          lists ? "attention: sparse_queries=%d and sparse_keys must be positive"
                                : "attention: sparse_queries=%d, sparse_keys and "
                                  "WEFT_ATTENTION_SPARSE_HEADS need WEFT_ATTENTION_SPARSE_LISTS",
                          desc->sparse_queries);
    if (bands && desc->mask == WEFT_MASK_TREE)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "attention: WEFT_ATTENTION_SPARSE under the tree mask is not supported: "
                          "use WEFT_ATTENTION_SPARSE_LISTS");
    return WEFT_OK;
}

// Members that change speed alone.
static weft_status check_tiles(weft_context *context, const weft_attention_desc *desc)
{
    const int32_t group = desc->num_q_heads / desc->kv.num_kv_heads;
    if (desc->tile_heads < 0 || (desc->tile_heads > 0 && group % desc->tile_heads != 0))
        return weft__fail(
            context, WEFT_EINVAL,
            "attention: tile_heads=%d does not divide the %d query heads of a KV head",
            desc->tile_heads, group);
    if (desc->block_keys < 0 || desc->block_keys > WEFT__ATTENTION_BLOCK)
        return weft__fail(context, WEFT_EINVAL, "attention: block_keys=%d is outside 0..%d",
                          desc->block_keys, WEFT__ATTENTION_BLOCK);
    if (desc->stages < 0 || desc->stages > 2)
        return weft__fail(context, WEFT_EINVAL, "attention: stages=%d is outside 0..2",
                          desc->stages);
    if (desc->max_workspace_bytes < 0)
        return weft__fail(context, WEFT_EINVAL, "attention: max_workspace_bytes=%lld is negative",
                          (long long)desc->max_workspace_bytes);
    if (desc->reserved_number)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: reserved_number is set, which this library does not know");
    return WEFT_OK;
}

static weft_status check_report(weft_context *context, const weft_attention_desc *desc)
{
    const weft_attention_report *report = desc->report;
    if (!report)
        return WEFT_OK;
    WEFT__TRY(weft__api_tail(context, "attention: report", report->reserved, 4));
    if ((report->max_logits || report->exp_sums || report->chunk_out) && desc->num_splits < 2)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: max_logits, exp_sums and chunk_out are those of chunks: the "
                          "plan needs num_splits of 2 or more, not %d",
                          desc->num_splits);
    if ((uintptr_t)report->counts % sizeof(uint64_t) ||
        ((uintptr_t)report->max_logits | (uintptr_t)report->exp_sums |
         (uintptr_t)report->chunk_out) %
            sizeof(float))
        return weft__fail(context, WEFT_EINVAL, "attention: a pointer of report is not aligned");
    return WEFT_OK;
}

static weft_status check_numbers(weft_context *context, const weft_attention_desc *desc)
{
    if (!isfinite(desc->scale))
        return weft__fail(context, WEFT_EINVAL, "attention: scale is not finite");
    if (desc->softcap != 0 && !(desc->softcap >= 1e-30f && desc->softcap <= 1e30f))
        return weft__fail(context, WEFT_EINVAL, "attention: softcap must be 1e-30 to 1e30, or 0");
    if (desc->max_q_tokens < 0 || desc->max_kv_len < 0 || desc->num_splits < 0)
        return weft__fail(
            context, WEFT_EINVAL,
            "attention: max_q_tokens, max_kv_len and num_splits must not be negative");
    if (desc->tile_rows < 0 || desc->tile_rows > MOST_TILE_ROWS || desc->chunk_keys < 0)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: tile_rows=%d is outside 0..%d, or chunk_keys=%d is negative",
                          desc->tile_rows, MOST_TILE_ROWS, desc->chunk_keys);
    WEFT__TRY(check_tiles(context, desc));
    if (desc->num_splits > 0 && desc->chunk_keys > 0)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: num_splits and chunk_keys exclude each other: set one to 0");
    if (desc->num_q_heads < 1 || desc->num_q_heads % desc->kv.num_kv_heads != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: num_q_heads=%d is no multiple of num_kv_heads=%d",
                          desc->num_q_heads, desc->kv.num_kv_heads);
    return WEFT_OK;
}

static weft_status settle_dtype(weft_context *context, const char *name, weft_dtype *dtype)
{
    *dtype = *dtype ? *dtype : WEFT_F32;
    if (*dtype == WEFT_F32 || *dtype == WEFT_F16 || *dtype == WEFT_BF16)
        return WEFT_OK;
    return weft__fail(context, WEFT_EUNSUPPORTED,
                      "attention: %s must be f32, f16 or bf16 (queries also fp8)", name);
}

static bool is_fp8(weft_dtype dtype)
{
    return dtype == WEFT_FP8_E4M3 || dtype == WEFT_FP8_E5M2;
}

static weft_status settle_desc(weft_context *context, weft_attention_desc *desc)
{
    const uint32_t known =
        WEFT_ATTENTION_BATCH_INVARIANT | WEFT_ATTENTION_SINKS | WEFT_ATTENTION_ALIBI |
        WEFT_ATTENTION_MASK_VALUE | WEFT_ATTENTION_SPARSE | WEFT_ATTENTION_SPARSE_LISTS |
        WEFT_ATTENTION_SPARSE_HEADS | WEFT_ATTENTION_APPEND | WEFT_ATTENTION_NARROW_QUERIES |
        WEFT_ATTENTION_OUT_ROUNDED | WEFT_ATTENTION_GENERIC | WEFT_ATTENTION_PRECISE;
    if (desc->flags & ~known)
        return weft__fail(context, WEFT_EINVAL, "attention: unknown flags 0x%x",
                          desc->flags & ~known);
    if (!is_fp8(desc->q_dtype))
        WEFT__TRY(settle_dtype(context, "q_dtype", &desc->q_dtype));
    WEFT__TRY(settle_dtype(context, "out_dtype", &desc->out_dtype));
    WEFT__TRY(weft__api_settle_layout(context, "attention", &desc->kv));
    WEFT__TRY(check_mask(context, desc));
    WEFT__TRY(check_sparse(context, desc));
    WEFT__TRY(check_numbers(context, desc));
    WEFT__TRY(check_report(context, desc));
    WEFT__TRY(weft__api_check_parts(context, desc));
    WEFT__TRY(weft__api_most(context, WEFT__OP_attention, "max_seqs", &desc->max_seqs));
    if (desc->max_q_tokens == 0)
        desc->max_q_tokens = desc->max_seqs;
    if (desc->scale == 0)
        desc->scale = 1 / sqrtf((float)desc->kv.head_dim);
    return WEFT_OK;
}

// What only the finished plan can say of its descriptor.
static weft_status check_plan(const weft_plan *plan, const weft_attention_desc *desc)
{
    if (desc->report && !plan->reports)
        return weft__fail(plan->context, WEFT_EUNSUPPORTED,
                          "attention: this device makes no report: leave it NULL");
    if (desc->flags & WEFT_ATTENTION_PRECISE && !plan->reports)
        return weft__fail(plan->context, WEFT_EUNSUPPORTED,
                          "attention: WEFT_ATTENTION_PRECISE is of the CPU: leave it out");
    if (desc->max_workspace_bytes > 0 &&
        plan->workspace_bytes > (uint64_t)desc->max_workspace_bytes)
        return weft__fail(plan->context, WEFT_EWORKSPACE,
                          "attention: max_workspace_bytes=%lld is less than the %zu bytes that the "
                          "smallest tiles need: allow more, or lower max_seqs and max_q_tokens",
                          (long long)desc->max_workspace_bytes, plan->workspace_bytes);
    return WEFT_OK;
}

weft_status weft_attention_layer(weft_dtype kv_dtype, int32_t num_q_heads, int32_t num_kv_heads,
                                 int32_t head_dim, weft_attention_desc *desc)
{
    const weft_attention_desc known = {
        .size = desc ? desc->size : 0,
        .kv = {.dtype = kv_dtype,
               .num_kv_heads = num_kv_heads ? num_kv_heads : num_q_heads,
               .head_dim = head_dim,
               .page_size = 1},
        .num_q_heads = num_q_heads,
        .max_workspace_bytes = 32 << 20};
    if (num_q_heads < 0 || num_kv_heads < 0 || head_dim < 0 ||
        !weft__api_answer(desc, &known, sizeof known))
        return weft__api_fail(WEFT_EINVAL,
                              "attention: desc is NULL or lacks its size (.size = sizeof desc), or "
                              "a number of heads or head_dim is negative");
    return WEFT_OK;
}

weft_status weft_attention_plan(weft_context *context, const weft_attention_desc *user_desc,
                                weft_plan **out)
{
    weft_attention_desc desc = {0};
    WEFT__TRY(
        weft__api_desc(context, WEFT__OP_attention, &desc, WEFT__KNOWN(&desc), user_desc, out));
    WEFT__TRY(settle_desc(context, &desc));
    weft_plan *plan = NULL;
    if (desc.flags & (WEFT_ATTENTION_APPEND | WEFT_ATTENTION_OUT_ROUNDED))
        WEFT__TRY(weft__api_plan_parts(context, &desc, &plan));
    else
        WEFT__TRY(WEFT__API_PLAN(context, WEFT__OP_attention, &desc, &plan));
    weft_status status = check_plan(plan, &desc);
    if (status != WEFT_OK) {
        weft_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return WEFT_OK;
}

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
    if (args->q_scales && !is_fp8(desc->q_dtype))
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
    if (!weft__api_stride(&args->page_table_stride, 0, 0, args->num_seqs))
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

bool weft_attention_supported(weft_context *context, const weft_attention_desc *desc,
                              const char **reason)
{
    weft_plan *plan = NULL;
    weft_status status = weft_attention_plan(context, desc, &plan);
    return weft__api_supported(context, status, plan, reason);
}
