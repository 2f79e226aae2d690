// SPDX-License-Identifier: MIT
// Spreads attention over threads. The division of the work into tasks is a matter of the problem
// (attention_work.h); who does a task is not, and changes no bit. A thread claims tasks that follow each
// other and hands them to the kernel together. Whoever does the last chunk of a tile merges the chunks.
#include <stdatomic.h>
#include <stdio.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_batch.h"
#include "src/base/checked.h"
#include "src/plan/plan_attention.h"

// Kernels of one format read whole heads of up to 256 elements in place. Most know intervals of keys, and what
// is no interval among the last keys only, and take queries of any format.
static bool serves(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__attention_kernel *kernel = (const void *)row;
    const weft_attention_desc *desc = opaque_desc;
    const weft_kv_layout *kv = &desc->kv;
    const struct weft__attention_mask mask = weft__plan_mask(desc);
    if (!kernel->kv)
        return true;
    if (kernel->q && desc->flags & WEFT_ATTENTION_PRECISE) // its weights are rounded
        return false;
    if (kernel->q && desc->q_dtype != kernel->q && !(desc->flags & WEFT_ATTENTION_NARROW_QUERIES))
        return false;
    return kv->dtype == kernel->kv && kv->v_dtype == kernel->kv && kv->v_dim == kv->head_dim &&
           kv->head_dim <= 256 && kv->inner == kv->head_dim && kv->v_inner == kv->v_dim &&
           (weft_dtype_block_bytes(kv->dtype) == 1 || (!kv->scaling && !kv->v_scaling)) &&
           !mask.soft &&
           (kernel->every_mask || !weft__attention_is_scattered(&mask) ||
            (kernel->late_masks && weft__attention_is_late(&mask)));
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
    snprintf(
        plan->description, sizeof plan->description,
        "attention %s %d/%d heads x %d%s %s%s%s%s%s%s, page %d, seqs<=%d queries<=%d keys<=%d: "
        "%s, tiles of %d queries, %s",
        weft_dtype_name(kv->dtype), launch->num_q_heads, kv->num_kv_heads, kv->head_dim, values,
        masks[launch->mask.kind], window, launch->softcap > 0 ? " softcap" : "",
        desc->flags & WEFT_ATTENTION_SINKS ? " sinks" : "",
        desc->flags & WEFT_ATTENTION_ALIBI ? " alibi" : "",
        desc->flags & (WEFT_ATTENTION_SPARSE | WEFT_ATTENTION_SPARSE_LISTS) ? " sparse" : "",
        kv->page_size, launch->max_seqs, launch->max_q_tokens, launch->max_kv_len,
        launch->kernel->base.name, launch->tile_tokens, split);
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
    int64_t tasks = weft__mul_saturated((tiles < tokens ? tiles : tokens) * launch->head_tiles,
                                        chunks < 1 ? 1 : chunks);
    bool chosen = launch->num_splits == 0 && launch->chunk_keys == 0 && launch->max_slots > 0;
    if (chosen && tasks < launch->target_tasks) { // keys are split to have more
        int64_t most =
            weft__mul_saturated(tasks, weft__ceil_div(desc->max_kv_len, launch->least_of_few));
        tasks = most < launch->target_tasks ? most : launch->target_tasks;
    }
    plan->info = (weft_plan_info){
        .splits = (int32_t)(chunks < 1 ? 1 : chunks),
        .tasks = tasks,
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
    int32_t threads = weft__cpu_of(plan->context)->threads;
    const weft_tuning tuned = weft__plan_attention_tuning(plan->context, desc, threads);
    const char *variant = desc->variant;
    if (!variant && *tuned.kernel && weft__plan_find(plan, tuned.kernel, serves))
        variant = tuned.kernel;
    weft_status status =
        weft__plan_launch(plan, sizeof(struct weft__attention_launch), variant, serves);
    if (status == WEFT_OK)
        status = weft__plan_attention(plan, plan->launch, threads);
    if (status != WEFT_OK)
        return status;
    plan->reports = true;
    describe(plan, plan->launch);
    inform(plan, plan->launch);
    return WEFT_OK;
}

struct work {
    const struct weft__attention_launch *launch;
    struct weft__attention_call call;
    const struct weft__attention_work *list;
    unsigned char *workspace;
    int32_t tasks, threads, least; // tasks that are worth a claim
    int32_t heads;                 // tasks that a kernel may read whole tokens for
    _Atomic int32_t claimed;       // the tasks before it
};

static float *slot_at(const struct work *work, int64_t slot)
{
    return (float *)(work->workspace + work->launch->partial_offset +
                     slot * work->launch->partial_bytes);
}

static _Atomic int32_t *done_at(const struct work *work, int32_t merge)
{
    return (_Atomic int32_t *)(void *)(work->workspace + work->launch->done_offset) + merge;
}

// Of `count` tasks to claim as many as leave heads that are read together in one claim, or halves of them.
static int32_t whole_heads(const struct work *work, int32_t count)
{
    for (int32_t heads = work->heads; heads > 1; heads /= 2)
        if (count >= heads)
            return count - count % heads;
    return count;
}

// Takes the next tasks: many as long as many are left, so that the threads end together.
static int32_t claim(struct work *work, int32_t *first)
{
    int32_t count, from = atomic_load_explicit(&work->claimed, memory_order_relaxed);
    do {
        int32_t left = work->tasks - from;
        count = work->threads == 1 ? left : whole_heads(work, left / (2 * work->threads));
        count = count < work->least ? work->least : count;
        count = count > left ? left : count;
    } while (count > 0 &&
             !atomic_compare_exchange_weak_explicit(&work->claimed, &from, from + count,
                                                    memory_order_relaxed, memory_order_relaxed));
    *first = from;
    return count;
}

// A chunk of a tile is done.
static void note_done(const struct work *work, const struct weft__attention_place *place,
                      const struct weft__attention_tile *tile)
{
    if (place->slot < 0 ||
        atomic_fetch_add_explicit(done_at(work, place->merge), 1, memory_order_acq_rel) + 1 <
            place->chunks)
        return;
    struct weft__attention_tile whole = *tile;
    const float *slots = slot_at(work, place->slot - place->chunk);
    int64_t slot_floats = work->launch->partial_bytes / (int64_t)sizeof(float);
    whole.partial = NULL;
    weft__attention_tell(&work->call, &whole, slots, slot_floats, place->chunks,
                         &work->launch->report);
    weft__attention_merge(&work->call, &whole, slots, slot_floats, place->chunks);
}

static void attend_tasks(const struct work *work, int32_t first, int32_t count, void *scratch)
{
    enum { TOGETHER = 32 };
    struct weft__attention_tile tiles[TOGETHER];
    struct weft__attention_place places[TOGETHER];
    for (int32_t n; count > 0; first += n, count -= n) {
        n = count < TOGETHER ? count : TOGETHER;
        for (int32_t i = 0; i < n; i++) {
            places[i] =
                weft__attention_task(work->launch, &work->call.lengths, work->list, first + i);
            tiles[i] = (struct weft__attention_tile){
                .seq = places[i].seq,
                .kv_head = places[i].kv_head,
                .first_head = places[i].first_head,
                .first_token = places[i].first_token,
                .tokens = places[i].tokens,
                .key0 = places[i].key0,
                .key1 = places[i].key1,
                .partial = places[i].slot < 0 ? NULL : slot_at(work, places[i].slot),
                .scratch = scratch,
            };
        }
        work->launch->kernel->run(&work->call, tiles, n);
        for (int32_t i = 0; i < n; i++)
            note_done(work, &places[i], &tiles[i]);
    }
}

// One for each thread; a thread that comes late finds nothing left.
static void attend_some(void *opaque, int32_t index, int32_t thread)
{
    struct work *work = opaque;
    void *scratch =
        work->workspace + work->launch->scratch_offset + thread * work->launch->scratch_bytes;
    (void)index;
    for (int32_t count, first; (count = claim(work, &first)) > 0;)
        attend_tasks(work, first, count, scratch);
}

static void spread(weft_context *context, struct work *work,
                   const struct weft__attention_totals *totals)
{
    // Of a claim: a kernel starts and ends slower than it goes on. Of a short run a thread takes all of its
    // share at once.
    enum { LEAST_KEYS = 1024, SHARE_KEYS = 2 * LEAST_KEYS, HEADS = WEFT__ATTENTION_KEYS_HEADS };
    const int64_t keys = totals->chunk_keys;
    work->tasks = totals->tasks;
    work->threads = weft__cpu_of(context)->threads;
    work->least = 1;
    work->heads = work->launch->head_tiles % HEADS ? work->launch->head_tiles : HEADS;
    const int32_t share = work->tasks / work->threads;
    if (keys > 0 && keys < LEAST_KEYS)
        work->least =
            share * keys <= SHARE_KEYS ? share : (int32_t)weft__ceil_div(LEAST_KEYS, keys);
    if (work->least > share || work->least < 1) // rather something for every thread
        work->least = share < 1 ? 1 : share;
    memset(work->workspace + work->launch->done_offset, 0,
           (size_t)totals->merges * sizeof(int32_t));
    int32_t claims = (int32_t)weft__ceil_div(work->tasks, work->least);
    weft__cpu_parallel_for(context, claims < work->threads ? claims : work->threads, attend_some,
                           work);
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

// Sequences of a run now.
static int32_t count_seqs(const weft_attention_args *args)
{
    const int32_t count = args->num_seqs_at ? *args->num_seqs_at : args->num_seqs;
    return count < 0 ? 0 : count > args->num_seqs ? args->num_seqs : count;
}

// Do shuffles run beside products? On a Zen they have units of their own; where there is AMX they share one,
// and eight rows by parts were measured to be slower.
static bool spreads_freely(const weft_context *context)
{
    return !(weft__cpu_of(context)->isa_mask >> WEFT__ISA_amx & 1u);
}

static struct weft__attention_call make_call(const weft_context *context,
                                             const struct weft__attention_launch *launch,
                                             const weft_attention_args *args)
{
    const weft_kv_layout *kv = &launch->kv;
    return (struct weft__attention_call){
        WEFT__ATTENTION_OPERANDS(args),
        .q_dtype = launch->q_dtype,
        .out_dtype = launch->out_dtype,
        .k = make_plane(&args->pool.k, kv->dtype, kv->head_dim, kv->inner, kv->scaling),
        .v = make_plane(&args->pool.v, kv->v_dtype, kv->v_dim, kv->v_inner, kv->v_scaling),
        .lengths = {count_seqs(args), args->cu_q_lens, args->kv_lens, args->kv_starts},
        .pages = args->page_indices ? args->page_indices : args->page_table,
        .page_starts = args->page_indices ? args->page_starts : NULL,
        .num_q_heads = launch->num_q_heads,
        .group_size = launch->group_size,
        .tile_heads = launch->tile_heads,
        .block_keys = launch->block_keys,
        .ahead = launch->ahead,
        .generic = launch->generic,
        .by_parts = spreads_freely(context),
        .precise = launch->precise,
        .counts = launch->report.counts,
        .page_size = kv->page_size,
        .ring_len = launch->ring_len,
        .mask = launch->mask,
        .scale = launch->scale,
        .softcap = launch->softcap,
        .mask_value = launch->mask_value,
        .sparse_blocks = args->sparse_blocks,
        .sparse_starts = args->sparse_starts,
        .sparse_first = args->sparse_first,
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
        .call = make_call(plan->context, launch, args),
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
    if (totals.tasks > 0)
        spread(plan->context, &work, &totals);
    return WEFT_OK;
}
