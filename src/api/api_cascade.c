// SPDX-License-Identifier: MIT
// Nothing but the public operations it is made of: attention twice and a merge.
#include <weft/cascade.h>
#include <weft/merge.h>

#include "src/api/api.h"
#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/plan/plan_batch.h"

enum { PREFIXES, OWN, LEVELS };

//  workspace:  | states [level][token][head][v_dim] | LSE [level][token][head] | workspace of a level |
struct weft_cascade {
    weft_context *context;
    weft_plan *levels[LEVELS], *merge;
    int32_t max_prefixes, num_q_heads, v_dim;
    size_t lse_offset, level_offset, workspace_bytes;
};

static weft_status check_masks(weft_context *context, const weft_attention_desc *desc)
{
    const uint32_t flags = WEFT_ATTENTION_ALIBI | WEFT_ATTENTION_MASK_VALUE |
                           WEFT_ATTENTION_SPARSE | WEFT_ATTENTION_SPARSE_LISTS;
    if (desc->window || desc->window_right || desc->local_chunk || desc->ring_len ||
        desc->flags & flags)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "cascade: every query must see its whole prefix: no window, local_chunk, "
                          "ring_len, ALiBi, mask_value or sparse blocks");
    if (desc->flags & (WEFT_ATTENTION_APPEND | WEFT_ATTENTION_OUT_ROUNDED))
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "cascade: it neither appends nor rounds: use weft_kv_append_run() before "
                          "it and weft_round_run() behind it");
    if (desc->report)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "cascade: a report is of one run, not of several: leave it NULL");
    return WEFT_OK;
}

// What a budget leaves for a level beside the states of both. Bounds that are not sound are the plans' to refuse.
static int64_t budget_of_level(const weft_attention_desc *desc)
{
    const int64_t dim = (int64_t)(desc->kv.v_dim ? desc->kv.v_dim : desc->kv.head_dim) + 1;
    int64_t rows, states;
    if (desc->max_workspace_bytes <= 0)
        return desc->max_workspace_bytes;
    if (!weft__mul_i64(LEVELS * (int64_t)sizeof(float) * desc->max_q_tokens, desc->num_q_heads,
                       &rows) ||
        !weft__mul_i64(rows, dim, &states) || states < 0 ||
        states >= desc->max_workspace_bytes - 2 * WEFT__ALIGN)
        return 1;
    return desc->max_workspace_bytes - 2 * WEFT__ALIGN - states;
}

static weft_status make_plans(weft_cascade *cascade, const weft_cascade_desc *desc)
{
    weft_attention_desc own = {0};
    if (!desc->attention || !weft__api_read(&own, WEFT__KNOWN(&own), desc->attention))
        return weft__fail(cascade->context, WEFT_EINVAL,
                          "cascade: desc.attention is NULL, lacks its size or sets members unknown "
                          "to this version");
    WEFT__TRY(check_masks(cascade->context, &own));
    weft_dtype out_dtype = own.out_dtype ? own.out_dtype : WEFT_F32;
    own.size = sizeof own;
    own.out_dtype = WEFT_F32;
    own.max_seqs = own.max_seqs ? own.max_seqs : 1;
    own.max_q_tokens = own.max_q_tokens ? own.max_q_tokens : own.max_seqs;
    own.max_workspace_bytes = budget_of_level(&own);
    WEFT__TRY(weft_attention_plan(cascade->context, &own, &cascade->levels[OWN]));
    weft_attention_desc prefix = own;
    prefix.mask = WEFT_MASK_FULL;
    prefix.flags &= ~(uint32_t)WEFT_ATTENTION_SINKS;
    prefix.max_seqs = cascade->max_prefixes;
    prefix.max_kv_len = desc->max_prefix_len;
    WEFT__TRY(weft_attention_plan(cascade->context, &prefix, &cascade->levels[PREFIXES]));
    cascade->num_q_heads = own.num_q_heads;
    cascade->v_dim = own.kv.v_dim ? own.kv.v_dim : own.kv.head_dim;
    const weft_merge_desc merge = {.size = sizeof merge,
                                   .num_heads = cascade->num_q_heads,
                                   .dim = cascade->v_dim,
                                   .max_tokens = own.max_q_tokens,
                                   .max_states = LEVELS,
                                   .dtype = WEFT_F32,
                                   .out_dtype = out_dtype};
    return weft_merge_plan(cascade->context, &merge, &cascade->merge);
}

static weft_status lay_out(weft_cascade *cascade)
{
    const weft_attention_desc *desc = cascade->levels[OWN]->desc;
    int64_t rows, states, logarithms, level = 0, total;
    for (int i = 0; i < LEVELS; i++) {
        int64_t bytes = (int64_t)weft_plan_workspace_bytes(cascade->levels[i]);
        level = bytes > level ? bytes : level;
    }
    if (!weft__mul_i64(LEVELS * (int64_t)sizeof(float) * desc->max_q_tokens, cascade->num_q_heads,
                       &rows) ||
        !weft__mul_i64(rows, cascade->v_dim, &states) || states > INT64_MAX / 4 ||
        rows > INT64_MAX / 4)
        return weft__fail(cascade->context, WEFT_EOVERFLOW,
                          "cascade: the states of so many queries do not fit");
    states = weft__align_up(states, WEFT__ALIGN);
    logarithms = weft__align_up(rows, WEFT__ALIGN);
    if (!weft__add_i64(states + logarithms, level, &total) || (uint64_t)total > SIZE_MAX / 2)
        return weft__fail(cascade->context, WEFT_EOVERFLOW,
                          "cascade: the states of so many queries do not fit");
    cascade->lse_offset = (size_t)states;
    cascade->level_offset = (size_t)(states + logarithms);
    cascade->workspace_bytes = (size_t)total;
    return WEFT_OK;
}

weft_status weft_cascade_create(weft_context *context, const weft_cascade_desc *user_desc,
                                weft_cascade **out)
{
    weft_cascade_desc desc = {0};
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "cascade: no place for it: out is NULL");
    if (!weft__api_read(&desc, WEFT__KNOWN(&desc), user_desc))
        return weft__fail(
            context, WEFT_EINVAL,
            "cascade: the descriptor is NULL, lacks its size (.size = sizeof desc) or "
            "sets members unknown to this version");
    if (desc.max_prefixes < 0 || desc.max_prefix_len < 0)
        return weft__fail(context, WEFT_EINVAL,
                          "cascade: max_prefixes and max_prefix_len must not be negative");
    weft_cascade *cascade = context->allocator.allocate(context->allocator.user, sizeof *cascade);
    if (!cascade)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a cascade");
    memset(cascade, 0, sizeof *cascade);
    cascade->context = context;
    cascade->max_prefixes = desc.max_prefixes ? desc.max_prefixes : 1;
    weft_status status = make_plans(cascade, &desc);
    if (status == WEFT_OK)
        status = lay_out(cascade);
    if (status != WEFT_OK) {
        weft_cascade_destroy(cascade);
        return status;
    }
    *out = cascade;
    return WEFT_OK;
}

void weft_cascade_destroy(weft_cascade *cascade)
{
    if (!cascade)
        return;
    const weft_allocator *allocator = &cascade->context->allocator;
    weft_plan_destroy(cascade->levels[PREFIXES]);
    weft_plan_destroy(cascade->levels[OWN]);
    weft_plan_destroy(cascade->merge);
    allocator->release(allocator->user, cascade);
}

size_t weft_cascade_workspace_bytes(const weft_cascade *cascade)
{
    return cascade ? cascade->workspace_bytes : 0;
}

const weft_plan *weft_cascade_plan_of(const weft_cascade *cascade, int32_t level)
{
    return cascade && level >= 0 && level < LEVELS ? cascade->levels[level] : NULL;
}

// Queries of the run, which the prefixes must cover; -1 after an error has been worded.
static int32_t count_queries(const weft_cascade *cascade, const weft_cascade_args *args,
                             const weft_attention_args *own)
{
    weft_context *context = cascade->context;
    const weft_batch *batch = args->prefix_batch;
    const weft_attention_desc *desc = cascade->levels[OWN]->desc;
    if (own->num_seqs < 0 || own->num_seqs > desc->max_seqs) {
        weft__fail(context, WEFT_EINVAL, "cascade: num_seqs=%d is outside 0..%d", own->num_seqs,
                   desc->max_seqs);
        return -1;
    }
    int32_t queries = own->batch ? own->batch->num_tokens : 0, covered = 0;
    if (!own->batch && own->num_seqs > 0 && own->cu_q_lens) {
        if (!context->backend->is_host(context, own->cu_q_lens)) {
            weft__fail(context, WEFT_EUNSUPPORTED,
                       "cascade: lengths in the memory of a device need batches");
            return -1;
        }
        queries = own->cu_q_lens[own->num_seqs];
    }
    if (batch)
        covered = batch->num_tokens;
    else if (args->num_prefixes > 0 && args->prefix_cu_q_lens &&
             context->backend->is_host(context, args->prefix_cu_q_lens))
        covered = args->prefix_cu_q_lens[args->num_prefixes];
    if (covered == queries)
        return queries;
    weft__fail(context, WEFT_EINVAL, "cascade: the prefixes are those of %d queries, there are %d",
               covered, queries);
    return -1;
}

static weft_status run_levels(const weft_cascade *cascade, const weft_cascade_args *args,
                              const weft_attention_args *own, int32_t queries)
{
    unsigned char *workspace = own->workspace;
    int64_t rows = (int64_t)queries * cascade->num_q_heads;
    float *states = (float *)(void *)workspace;
    float *lse = (float *)(void *)(workspace + cascade->lse_offset);
    weft_attention_args level = *own;
    level.size = sizeof level;
    level.out_token_stride = level.out_head_stride = 0;
    level.workspace = workspace + cascade->level_offset;
    level.workspace_bytes = cascade->workspace_bytes - cascade->level_offset;
    level.out = states + rows * cascade->v_dim;
    level.lse = lse + rows;
    WEFT__TRY(weft_attention_run(cascade->levels[OWN], &level));
    level.out = states;
    level.lse = lse;
    level.sinks = NULL;
    level.tree_parents = level.mask_columns = NULL;
    level.mask_bits = NULL;
    level.seq_rows = level.kv_starts = NULL;
    level.num_seqs = args->num_prefixes;
    level.cu_q_lens = args->prefix_cu_q_lens;
    level.kv_lens = args->prefix_lens;
    level.page_table = args->prefix_page_table;
    level.page_table_stride = args->prefix_page_table_stride;
    level.page_indices = args->prefix_page_indices;
    level.page_starts = args->prefix_page_starts;
    level.batch = args->prefix_batch;
    return weft_attention_run(cascade->levels[PREFIXES], &level);
}

weft_status weft_cascade_run(const weft_cascade *cascade, const weft_cascade_args *user_args)
{
    weft_cascade_args args = {0};
    weft_attention_args own = {0}; // handed on: what this version does not know must be zero
    if (!cascade)
        return WEFT_EINVAL;
    weft_context *context = cascade->context;
    if (!weft__api_read(&args, WEFT__KNOWN(&args), user_args) || !args.attention ||
        !weft__api_read(&own, WEFT__KNOWN(&own), args.attention))
        return weft__fail(context, WEFT_EINVAL,
                          "cascade: args or args.attention is NULL, lacks its size or sets members "
                          "unknown to this version");
    if (args.num_prefixes < 0 || args.num_prefixes > cascade->max_prefixes)
        return weft__fail(context, WEFT_EINVAL, "cascade: num_prefixes=%d is outside 0..%d",
                          args.num_prefixes, cascade->max_prefixes);
    if (!own.workspace || own.workspace_bytes < cascade->workspace_bytes ||
        (uintptr_t)own.workspace % WEFT__ALIGN != 0)
        return weft__fail(
            context, WEFT_EWORKSPACE,
            "cascade: the workspace must be aligned to 64 bytes and have %zu, not %zu",
            cascade->workspace_bytes, own.workspace ? own.workspace_bytes : 0);
    if (own.num_seqs_at)
        return weft__fail(
            context, WEFT_EUNSUPPORTED,
            "cascade: how many sequences there are must be in num_seqs, not in memory");
    int32_t queries = count_queries(cascade, &args, &own);
    if (queries <= 0)
        return queries < 0 ? WEFT_EINVAL : WEFT_OK;
    if (!own.out)
        return weft__fail(context, WEFT_EINVAL, "cascade: out must not be NULL");
    WEFT__TRY(run_levels(cascade, &args, &own, queries));
    const weft_merge_args merge = {
        .size = sizeof merge,
        .tokens = queries,
        .num_states = LEVELS,
        .x = own.workspace,
        .lse = (const float *)(const void *)((char *)own.workspace + cascade->lse_offset),
        .out = own.out,
        .out_token_stride = own.out_token_stride,
        .out_head_stride = own.out_head_stride,
        .out_lse = own.lse,
        .stream = own.stream};
    return weft_merge_run(cascade->merge, &merge);
}
