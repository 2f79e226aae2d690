// SPDX-License-Identifier: MIT
// Spreads attention over threads: first the tiles (or chunks of tiles), then, for sequences whose keys
// were split, the merging of the chunks.
#include <stdio.h>

#include "src/backend/cpu/cpu.h"
#include "src/plan/plan_attention.h"

static bool serves(const struct weft__kernel *row, const void *desc)
{
    return ((const struct weft__attention_kernel *)(const void *)row)->kv ==
           ((const weft_attention_desc *)desc)->kv.dtype;
}

static void describe(weft_plan *plan, const struct weft__attention_launch *launch)
{
    char window[32] = "", split[48] = "unsplit";
    if (launch->window > 0)
        snprintf(window, sizeof window, " window %d", launch->window);
    if (launch->num_splits > 1)
        snprintf(split, sizeof split, "%d chunks", launch->num_splits);
    else if (launch->chunk_keys > 0)
        snprintf(split, sizeof split, "chunks of %d keys", launch->chunk_keys);
    else if (launch->max_slots > 0)
        snprintf(split, sizeof split, "split for %d tasks", launch->target_tasks);
    snprintf(plan->description, sizeof plan->description,
             "attention %s %d/%d heads x %d %s%s%s, page %d, seqs<=%d queries<=%d keys<=%d: %s, "
             "tiles of %d queries, %s",
             weft_dtype_name(launch->kv.dtype), launch->num_q_heads, launch->kv.num_kv_heads,
             launch->kv.head_dim, launch->mask == WEFT_MASK_CAUSAL ? "causal" : "full", window,
             launch->softcap > 0 ? " softcap" : "", launch->kv.page_size, launch->max_seqs,
             launch->max_q_tokens, launch->max_kv_len, launch->kernel->base.name,
             launch->tile_tokens, split);
}

weft__prepare_fn weft__cpu_prepare_attention;
weft_status weft__cpu_prepare_attention(weft_plan *plan)
{
    const weft_attention_desc *desc = plan->desc;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__attention_launch), desc->variant, serves);
    if (status == WEFT_OK)
        status = weft__plan_attention(plan, plan->launch, weft__cpu_of(plan->context)->threads);
    if (status == WEFT_OK)
        describe(plan, plan->launch);
    return status;
}

struct work {
    const struct weft__attention_launch *launch;
    struct weft__attention_call call;
    const struct weft__attention_work *list;
    int32_t num_seqs;
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
    struct weft__attention_place place = weft__attention_task(
        launch, work->num_seqs, work->call.cu_q_lens, work->call.kv_lens, work->list, index);
    struct weft__attention_tile tile = tile_at(&place);
    tile.partial = place.slot < 0 ? NULL : slot_at(work, place.slot);
    tile.scratch = work->workspace + launch->scratch_offset + thread * launch->scratch_bytes;
    launch->kernel->run(&work->call, &tile);
}

static void merge_task(void *opaque, int32_t index, int32_t thread)
{
    const struct work *work = opaque;
    struct weft__attention_place place = weft__attention_merge_task(
        work->launch, work->num_seqs, work->call.cu_q_lens, work->call.kv_lens, work->list, index);
    struct weft__attention_tile tile = tile_at(&place);
    (void)thread;
    weft__attention_merge(&work->call, &tile, slot_at(work, place.slot),
                          work->launch->partial_bytes / (int64_t)sizeof(float), place.chunks);
}

static struct weft__attention_call make_call(const struct weft__attention_launch *launch,
                                             const weft_attention_args *args)
{
    return (struct weft__attention_call){
        .q = args->q,
        .q_token_stride = args->q_token_stride,
        .q_head_stride = args->q_head_stride,
        .out = args->out,
        .out_token_stride = args->out_token_stride,
        .out_head_stride = args->out_head_stride,
        .lse = args->lse,
        .pool = args->pool,
        .cu_q_lens = args->cu_q_lens,
        .kv_lens = args->kv_lens,
        .page_table = args->page_table,
        .page_table_stride = args->page_table_stride,
        .num_q_heads = launch->num_q_heads,
        .group_size = launch->group_size,
        .head_dim = launch->kv.head_dim,
        .page_size = launch->kv.page_size,
        .mask = launch->mask,
        .window = launch->window,
        .scale = launch->scale,
        .softcap = launch->softcap,
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
    struct weft__attention_totals totals =
        weft__attention_divide(launch, args->num_seqs, args->cu_q_lens, args->kv_lens, list);
    struct work work = {
        .launch = launch,
        .call = make_call(launch, args),
        .list = list,
        .num_seqs = args->num_seqs,
        .workspace = args->workspace,
    };
    weft__cpu_parallel_for(plan->context, totals.tasks, attend_task, &work);
    weft__cpu_parallel_for(plan->context, totals.merges, merge_task, &work);
    return WEFT_OK;
}
