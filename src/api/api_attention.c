// SPDX-License-Identifier: MIT
#include <weft/attention.h>

#include <math.h>

#include "src/api/api_attention.h"
#include "src/api/api_pool.h"
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
    if (!weft__api_is_fp8(desc->q_dtype))
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

bool weft_attention_supported(weft_context *context, const weft_attention_desc *desc,
                              const char **reason)
{
    weft_plan *plan = NULL;
    weft_status status = weft_attention_plan(context, desc, &plan);
    return weft__api_supported(context, status, plan, reason);
}
