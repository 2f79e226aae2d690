// SPDX-License-Identifier: MIT
// Spreads attention over threads: first the tiles (or chunks of tiles), then, for sequences whose keys
// were split, the merging of the chunks.
#include <stdio.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_batch.h"
#include "src/base/checked.h"
#include "src/plan/plan_attention.h"

// Kernels of one format read whole heads of up to 256 elements in place, and know intervals of keys.
static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__attention_kernel *kernel = (const void *)row;
    const weft_attention_desc *desc = opaque_desc;
    const weft_kv_layout *kv = &desc->kv;
    const bool soft = desc->flags & WEFT_ATTENTION_MASK_VALUE;
    if (!kernel->kv)
        return kernel->base.level == WEFT__ISA_ref || !soft;
    return kv->dtype == kernel->kv && kv->v_dtype == kernel->kv && kv->v_dim == kv->head_dim &&
           kv->head_dim <= 256 && kv->inner == kv->head_dim && kv->v_inner == kv->v_dim &&
           !kv->scaling && !kv->v_scaling && desc->mask <= WEFT_MASK_FULL && !soft;
}

static void describe(weft_plan *plan, const struct weft__attention_launch *launch)
{
    static const char *const masks[] = {"causal", "full", "tree", "bits"};
    const weft_attention_desc *desc = plan->desc;
    const weft_kv_layout *kv = &launch->kv;
    char window[32] = "", split[48] = "unsplit", values[48] = "";
    if (launch->mask.window > 0)
        snprintf(window, sizeof window, " window %d", launch->mask.window);
    if (launch->num_splits > 1)
        snprintf(split, sizeof split, "%d chunks", launch->num_splits);
    else if (launch->chunk_keys > 0)
        snprintf(split, sizeof split, "chunks of %d keys", launch->chunk_keys);
    else if (launch->max_slots > 0)
        snprintf(split, sizeof split, "split for %d tasks", launch->target_tasks);
    if (kv->v_dtype != kv->dtype || kv->v_dim != kv->head_dim)
        snprintf(values, sizeof values, ", values %s x %d", weft_dtype_name(kv->v_dtype),
                 kv->v_dim);
    snprintf(plan->description, sizeof plan->description,
             "attention %s %d/%d heads x %d%s %s%s%s%s%s, page %d, seqs<=%d queries<=%d keys<=%d: "
             "%s, tiles of %d queries, %s",
             weft_dtype_name(kv->dtype), launch->num_q_heads, kv->num_kv_heads, kv->head_dim,
             values, masks[launch->mask.kind], window, launch->softcap > 0 ? " softcap" : "",
             desc->flags & WEFT_ATTENTION_SINKS ? " sinks" : "",
             desc->flags & WEFT_ATTENTION_ALIBI ? " alibi" : "", kv->page_size, launch->max_seqs,
             launch->max_q_tokens, launch->max_kv_len, launch->kernel->base.name,
             launch->tile_tokens, split);
}

// As if every sequence were as long as any may be.
static void inform(weft_plan *plan, const struct weft__attention_launch *launch)
{
    const weft_attention_desc *desc = plan->desc;
    const weft_kv_layout *kv = &desc->kv;
    int64_t tokens = desc->max_q_tokens, heads = desc->num_q_heads;
    int64_t keys =
        weft__mul_saturated((int64_t)desc->max_seqs * desc->max_kv_len, kv->num_kv_heads);
    int64_t chunks = launch->num_splits > 0   ? launch->num_splits
                     : launch->chunk_keys > 0 ? weft__ceil_div(desc->max_kv_len, launch->chunk_keys)
                                              : 1;
    int64_t tiles = weft__ceil_div(tokens, launch->tile_tokens) + desc->max_seqs - 1;
    plan->info = (weft_plan_info){
        .splits = (int32_t)(chunks < 1 ? 1 : chunks),
        .tasks = weft__mul_saturated((tiles < tokens ? tiles : tokens) * kv->num_kv_heads,
                                     chunks < 1 ? 1 : chunks),
        .tile_rows = launch->tile_tokens,
        .bytes_read = weft__plan_bytes(kv->dtype, keys, kv->head_dim) +
                      weft__plan_bytes(kv->v_dtype, keys, kv->v_dim) +
                      weft__plan_bytes(desc->q_dtype, tokens * heads, kv->head_dim),
        .bytes_written = weft__plan_bytes(desc->out_dtype, tokens * heads, kv->v_dim),
        .kernel = launch->kernel->base.name};
}

weft__prepare_fn weft__cpu_prepare_attention;
weft_status weft__cpu_prepare_attention(weft_plan *plan)
{
    const weft_attention_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__attention_launch), desc->variant, serves);
    if (status == WEFT_OK)
        status = weft__plan_attention(plan, plan->launch, weft__cpu_of(plan->context)->threads);
    if (status != WEFT_OK)
        return status;
    describe(plan, plan->launch);
    inform(plan, plan->launch);
    return WEFT_OK;
}

struct work {
    const struct weft__attention_launch *launch;
    struct weft__attention_call call;
    const struct weft__attention_work *list;
    unsigned char *workspace;
};

static float *slot_at(const struct work *work, int64_t slot)
{
    return (float *)(work->workspace + work->launch->partial_offset +
                     slot * work->launch->partial_bytes);
}

static struct weft__attention_tile tile_at(const struct weft__attention_place *place)
{
    return (struct weft__attention_tile){
        .seq = place->seq,
        .kv_head = place->kv_head,
        .first_token = place->first_token,
        .tokens = place->tokens,
        .key0 = place->key0,
        .key1 = place->key1,
    };
}

static void attend_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    const struct weft__attention_launch *launch = work->launch;
    struct weft__attention_place place =
        weft__attention_task(launch, &work->call.lengths, work->list, index);
    struct weft__attention_tile tile = tile_at(&place);
    tile.partial = place.slot < 0 ? NULL : slot_at(work, place.slot);
    tile.scratch = work->workspace + launch->scratch_offset + thread * launch->scratch_bytes;
    launch->kernel->run(&work->call, &tile);
}

static void merge_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    struct weft__attention_place place =
        weft__attention_merge_task(work->launch, &work->call.lengths, work->list, index);
    struct weft__attention_tile tile = tile_at(&place);
    (void)thread;
    weft__attention_merge(&work->call, &tile, slot_at(work, place.slot),
                          work->launch->partial_bytes / (int64_t)sizeof(float), place.chunks);
}

static struct weft__attention_plane make_plane(const weft_kv_plane *plane, weft_dtype dtype,
                                               int32_t dim, int32_t inner, weft_kv_scaling scaling)
{
    return (struct weft__attention_plane){
        .data = plane->data,
        .dtype = dtype,
        .dim = dim,
        .inner = inner,
        .page_stride = plane->page_stride,
        .head_stride = plane->head_stride,
        .token_stride = plane->token_stride,
        .inner_stride = plane->inner_stride,
        .scales = scaling ? plane->scales : NULL,
        .scale_seq_stride = plane->scale_seq_stride,
        .scale_page_stride = plane->scale_page_stride,
        .scale_head_stride = plane->scale_head_stride,
        .scale_token_stride = plane->scale_token_stride,
    };
}

static struct weft__attention_call make_call(const struct weft__attention_launch *launch,
                                             const weft_attention_args *args)
{
    const weft_kv_layout *kv = &launch->kv;
    return (struct weft__attention_call){
        .q = args->q,
        .q_dtype = launch->q_dtype,
        .out_dtype = launch->out_dtype,
        .q_token_stride = args->q_token_stride,
        .q_head_stride = args->q_head_stride,
        .out = args->out,
        .out_token_stride = args->out_token_stride,
        .out_head_stride = args->out_head_stride,
        .lse = args->lse,
        .k = make_plane(&args->pool.k, kv->dtype, kv->head_dim, kv->inner, kv->scaling),
        .v = make_plane(&args->pool.v, kv->v_dtype, kv->v_dim, kv->v_inner, kv->v_scaling),
        .lengths = {args->num_seqs, args->cu_q_lens, args->kv_lens, args->kv_starts},
        .pages = args->page_indices ? args->page_indices : args->page_table,
        .page_starts = args->page_indices ? args->page_starts : NULL,
        .page_table_stride = args->page_table_stride,
        .seq_rows = args->seq_rows,
        .num_q_heads = launch->num_q_heads,
        .group_size = launch->group_size,
        .page_size = kv->page_size,
        .ring_len = launch->ring_len,
        .mask = launch->mask,
        .scale = launch->scale,
        .softcap = launch->softcap,
        .mask_value = launch->mask_value,
        .sinks = args->sinks,
        .alibi_slopes = args->alibi_slopes,
        .tree_parents = args->tree_parents,
        .mask_columns = args->mask_columns,
        .mask_bits = args->mask_bits,
        .mask_stride = args->mask_stride,
    };
}

weft__submit_fn weft__cpu_submit_attention;
weft_status weft__cpu_submit_attention(const weft_plan *plan, const void *opaque_args,
                                       weft_stream *stream)
{
    const struct weft__attention_launch *launch = plan->launch;
    const weft_attention_args *args = opaque_args;
    (void)stream;
    struct weft__attention_work *list = args->workspace;
    struct weft__attention_totals totals;
    struct work work = {
        .launch = launch,
        .call = make_call(launch, args),
        .list = list,
        .workspace = args->workspace,
    };
    if (args->batch) {
        const struct weft__cpu_batch_part *part = weft__cpu_batch_part(args->batch, plan);
        work.call.lengths = weft__cpu_batch_lengths(args->batch);
        work.call.pages = args->batch->pages;
        work.call.page_starts = args->batch->page_starts;
        work.list = part->work;
        totals = part->totals;
    } else {
        totals = weft__attention_divide(launch, &work.call.lengths, list);
    }
    weft__cpu_parallel_for(plan->context, totals.tasks, attend_task, &work);
    weft__cpu_parallel_for(plan->context, totals.merges, merge_task, &work);
    return WEFT_OK;
}
