// SPDX-License-Identifier: MIT
// Spreads attention over threads: first the tiles (or chunks of tiles), then, for sequences whose keys
// were split, the merging of the chunks.
#include "src/backend/context.h"
#include "src/kernels/attention/attention_work.h"

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
weft_status weft__cpu_submit_attention(const weft_context *context, const void *opaque_launch,
                                       const void *opaque_args)
{
    const struct weft__attention_launch *launch = opaque_launch;
    const weft_attention_args *args = opaque_args;
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
    weft__parallel_for(context, totals.tasks, attend_task, &work);
    weft__parallel_for(context, totals.merges, merge_task, &work);
    return WEFT_OK;
}
