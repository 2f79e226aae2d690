// SPDX-License-Identifier: MIT
#include "src/plan/plan_attention.h"

#include "src/base/checked.h"
#include "src/base/memory.h"

enum {
    // With WEFT_ATTENTION_BATCH_INVARIANT: at most so many chunks, only for sequences with so few
    // queries, so that the workspace stays small.
    FIXED_CHUNKS = 16,
    FIXED_LEAST_CHUNK = 512,
    FIXED_STEP = 64,
    FEW_LEAST_CHUNK = 256, // of a run of few rows that has few tasks
    FIXED_TOKENS = 4,
};

static int64_t round_up(int64_t value, int64_t multiple)
{
    return weft__ceil_div(value, multiple) * multiple;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Tiles of all sequences, whatever their lengths.
static int64_t tiles_most(const struct weft__attention_launch *launch,
                          const weft_attention_desc *desc)
{
    int64_t tokens = launch->few_tokens ? launch->few_tokens : launch->tile_tokens;
    return weft__ceil_div(desc->max_q_tokens, tokens) + desc->max_seqs;
}

// How sequences may be split and how many partial tiles that can make. False on overflow.
static bool choose_split(struct weft__attention_launch *launch, const weft_attention_desc *desc)
{
    int64_t tiles = tiles_most(launch, desc);
    int64_t chunks, split_tiles = smaller(tiles, desc->max_q_tokens);
    launch->split_tokens = desc->max_q_tokens;
    if (desc->num_splits > 0) {
        launch->num_splits = desc->num_splits;
        chunks = desc->num_splits == 1 ? 0 : desc->num_splits;
    } else if (desc->chunk_keys > 0) {
        launch->chunk_keys = (int32_t)smaller(round_up(desc->chunk_keys, FIXED_STEP), INT32_MAX);
        chunks = weft__ceil_div(desc->max_kv_len, launch->chunk_keys);
        chunks = chunks > 1 ? chunks : 0;
    } else if (desc->flags & WEFT_ATTENTION_BATCH_INVARIANT) {
        int64_t length = round_up(weft__ceil_div(desc->max_kv_len, FIXED_CHUNKS), FIXED_STEP);
        launch->chunk_keys =
            (int32_t)smaller(length < FIXED_LEAST_CHUNK ? FIXED_LEAST_CHUNK : length, INT32_MAX);
        launch->split_tokens = FIXED_TOKENS;
        chunks = weft__ceil_div(desc->max_kv_len, launch->chunk_keys);
        chunks = chunks > 1 ? chunks : 0;
        split_tiles = smaller(split_tiles, FIXED_TOKENS * (int64_t)desc->max_seqs);
    } else {
        // chunk_keys grows until the slots suffice, so any number would do; this one lets a run that
        // is split evenly have its target. Short sequences are never split and need none.
        chunks = weft__ceil_div(desc->max_kv_len, launch->least_of_few);
        chunks = chunks > 1 ? chunks : 0;
        int64_t most = 2 * (int64_t)launch->target_tasks;
        bool fits = weft__mul_i64(split_tiles, launch->head_tiles, &launch->max_slots) &&
                    weft__mul_i64(launch->max_slots, chunks, &launch->max_slots);
        launch->max_slots = fits ? smaller(launch->max_slots, most) : most;
        launch->max_slots = smaller(launch->max_slots, launch->most_slots);
        return true;
    }
    return weft__mul_i64(split_tiles, launch->head_tiles, &launch->max_slots) &&
           weft__mul_i64(launch->max_slots, chunks, &launch->max_slots);
}

static bool lay_out_workspace(struct weft__attention_launch *launch, int32_t threads,
                              size_t *workspace_bytes)
{
    int64_t rows, states, scratch, partial, total;
    if (!weft__mul_i64(launch->tile_tokens, launch->tile_heads, &rows) || rows > INT32_MAX ||
        !weft__mul_i64(rows, weft__attention_state_floats(launch->kv.v_dim) * 4, &states) ||
        launch->max_slots > INT64_MAX / 16)
        return false;
    launch->scratch_bytes = weft__align_up(
        launch->kernel->scratch_bytes((int32_t)rows, launch->kv.head_dim, launch->kv.v_dim),
        WEFT__ALIGN);
    launch->done_offset =
        ((int64_t)launch->max_seqs + 1) * (int64_t)sizeof(struct weft__attention_work);
    launch->scratch_offset = weft__align_up(
        launch->done_offset + launch->max_slots / 2 * (int64_t)sizeof(int32_t), WEFT__ALIGN);
    launch->partial_bytes = states;
    if (!weft__mul_i64(launch->scratch_bytes, threads, &scratch) ||
        !weft__mul_i64(launch->max_slots, states, &partial) ||
        !weft__add_i64(launch->scratch_offset, scratch, &launch->partial_offset) ||
        !weft__add_i64(launch->partial_offset, partial, &total) || (uint64_t)total > SIZE_MAX / 2)
        return false;
    *workspace_bytes = (size_t)total;
    return true;
}

// Task numbers must fit in 32 bits whatever the lengths of a run.
static bool tasks_fit(const struct weft__attention_launch *launch, const weft_attention_desc *desc)
{
    int64_t tiles = tiles_most(launch, desc), tasks;
    return weft__mul_i64(tiles, launch->head_tiles, &tasks) && tasks <= INT32_MAX / 2 &&
           launch->max_slots <= INT32_MAX / 2;
}

struct weft__attention_mask weft__plan_mask(const weft_attention_desc *desc)
{
    const bool sparse = desc->flags & WEFT_ATTENTION_SPARSE;
    const bool lists = desc->flags & WEFT_ATTENTION_SPARSE_LISTS;
    return (struct weft__attention_mask){
        .kind = desc->mask,
        .window = desc->window,
        .window_right = desc->window_right,
        .local_chunk = desc->local_chunk,
        .soft = desc->flags & WEFT_ATTENTION_MASK_VALUE,
        .sparse_block = sparse ? desc->sparse_block : 0,
        .sparse_local = desc->sparse_local,
        .sparse_stride = desc->sparse_stride,
        .sparse_head_step = desc->sparse_head_step,
        .sparse_rank = desc->sparse_rank,
        .sparse_queries = lists ? desc->sparse_queries : 0,
        .sparse_keys = lists ? desc->sparse_keys : 0,
        .sparse_heads = desc->flags & WEFT_ATTENTION_SPARSE_HEADS,
    };
}

weft_tuning weft__plan_attention_tuning(const weft_context *context,
                                        const weft_attention_desc *desc, int32_t threads)
{
    const weft_tuning problem = {.op = WEFT_TUNING_ATTENTION,
                                 .dtype = desc->kv.dtype,
                                 .min_threads = threads,
                                 .kv_heads = desc->kv.num_kv_heads,
                                 .head_dim = desc->kv.head_dim,
                                 .page_size = desc->kv.page_size};
    bool fixed = desc->flags & WEFT_ATTENTION_BATCH_INVARIANT;
    return weft__plan_tuning_choose(fixed ? NULL : context->tunings, &problem);
}

static int32_t few_tokens(const struct weft__attention_launch *launch)
{
    return WEFT__ATTENTION_FEW_ROWS / launch->tile_heads;
}

// Rows of a draft or of a short prompt are faster in several tiles of few rows, which are read in place, than in one
// of many. Where slots are as many as the workspace has room for, and the kernel has such loops.
static bool takes_few(const struct weft__attention_launch *launch, const weft_attention_desc *desc)
{
    const bool plain = desc->num_splits == 0 && desc->chunk_keys == 0 && desc->tile_rows == 0 &&
                       !(desc->flags & WEFT_ATTENTION_BATCH_INVARIANT);
    return plain && launch->kernel->kv && launch->kernel->few_apart &&
           (!weft__attention_is_scattered(&launch->mask) ||
            (launch->kernel->late_masks && weft__attention_is_late(&launch->mask)));
}

static bool size_workspace(weft_plan *plan, struct weft__attention_launch *launch, int32_t threads)
{
    return choose_split(launch, plan->desc) &&
           lay_out_workspace(launch, threads, &plan->workspace_bytes);
}

// Towards less workspace: fewer slots where their number is the plan's own, then smaller tiles. False: nothing is
// left to save.
static bool shrink(struct weft__attention_launch *launch)
{
    if (launch->most_slots > 0 && launch->max_slots > 0 && launch->num_splits == 0 &&
        launch->chunk_keys == 0) {
        launch->most_slots = launch->max_slots / 2;
        return true;
    }
    if (launch->tile_tokens == 1)
        return false;
    launch->tile_tokens /= 2;
    if (launch->few_tokens >= launch->tile_tokens)
        launch->few_tokens = 0;
    return true;
}

weft_status weft__plan_attention(weft_plan *plan, struct weft__attention_launch *launch,
                                 int32_t threads)
{
    const weft_attention_desc *desc = plan->desc;
    launch->kv = desc->kv;
    launch->num_q_heads = desc->num_q_heads;
    launch->group_size = desc->num_q_heads / desc->kv.num_kv_heads;
    launch->tile_heads = desc->tile_heads ? desc->tile_heads : launch->group_size;
    launch->head_tiles = desc->num_q_heads / launch->tile_heads;
    launch->ahead = desc->stages != 1;
    launch->most_slots = INT64_MAX;
    if (desc->report)
        launch->report = *desc->report;
    launch->generic = desc->flags & WEFT_ATTENTION_GENERIC;
    launch->precise = desc->flags & WEFT_ATTENTION_PRECISE;
    launch->ring_len = desc->ring_len;
    launch->q_dtype = desc->q_dtype;
    launch->out_dtype = desc->out_dtype;
    launch->mask = weft__plan_mask(desc);
    launch->scale = desc->scale;
    launch->softcap = desc->softcap;
    launch->mask_value = desc->mask_value;
    launch->max_seqs = desc->max_seqs;
    launch->max_q_tokens = desc->max_q_tokens;
    launch->max_kv_len = desc->max_kv_len;
    const weft_tuning tuned = weft__plan_attention_tuning(plan->context, desc, threads);
    launch->target_tasks = tuned.target_tasks;
    launch->least_chunk = tuned.least_chunk;
    launch->least_of_few = (int32_t)smaller(tuned.least_chunk, FEW_LEAST_CHUNK);
    launch->block_keys = desc->block_keys   ? desc->block_keys
                         : tuned.block_keys ? tuned.block_keys
                                            : WEFT__ATTENTION_BLOCK;
    int64_t rows = desc->tile_rows   ? desc->tile_rows
                   : tuned.tile_rows ? tuned.tile_rows
                                     : launch->kernel->tile_rows;
    int64_t tokens = rows / launch->tile_heads;
    launch->tile_tokens = (int32_t)smaller(tokens < 1 ? 1 : tokens, desc->max_q_tokens);
    if (takes_few(launch, desc) && launch->tile_tokens > few_tokens(launch))
        launch->few_tokens = few_tokens(launch);
    bool fits = size_workspace(plan, launch, threads);
    while (fits && desc->max_workspace_bytes > 0 &&
           (int64_t)plan->workspace_bytes > desc->max_workspace_bytes && shrink(launch))
        fits = size_workspace(plan, launch, threads);
    if (!fits || !tasks_fit(launch, desc))
        return weft__fail(plan->context, WEFT_EOVERFLOW,
                          "attention: the bounds of this batch make more work than fits");
    return WEFT_OK;
}
