// SPDX-License-Identifier: MIT
// How attention on CUDA divides a run: equal shares of all tiles, of which the device finds its own, or chunks of
// items, where a descriptor asks for them (attention_device.h).
#include <stdio.h>

#include "src/base/checked.h"
#include "src/kernels/attention/attention_plan_cuda.h"

enum {
    // Chunks of batch-invariant plans, as the CPU has them: a function of max_kv_len alone.
    INVARIANT_CHUNKS = 16,
    INVARIANT_KEYS = 512, // at least
    IDLE_SHARE = 32,      // one block of so many may be idle
    END_MOST = 64,        // tiles
    SLICED_SPARE = 65536, // counters
};

static int32_t at_most(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

// Tiles of the longest item.
static int64_t tiles_most(const weft_attention_desc *desc, int32_t keys_of_tile)
{
    return desc->max_kv_len > 0 ? weft__ceil_div(desc->max_kv_len, keys_of_tile) : 1;
}

static void plan_chunks(const weft_attention_desc *desc, int32_t keys_of_tile,
                        struct weft__attention_cuda_launch *launch)
{
    const int64_t most = tiles_most(desc, keys_of_tile);
    int64_t keys = desc->chunk_keys;
    launch->splits = launch->chunk_tiles = 0;
    if (desc->num_splits > 0) {
        launch->splits = at_most(desc->num_splits, most);
        return;
    }
    if (keys == 0 && desc->flags & WEFT_ATTENTION_BATCH_INVARIANT) {
        keys = weft__ceil_div(desc->max_kv_len, INVARIANT_CHUNKS);
        keys = keys < INVARIANT_KEYS ? INVARIANT_KEYS : keys;
    }
    if (keys > 0)
        launch->chunk_tiles = at_most(weft__ceil_div(keys, keys_of_tile), most);
    if (keys > 0 && launch->chunk_tiles == most) // every item is one chunk
        launch->splits = 1, launch->chunk_tiles = 0;
}

weft_status weft__attention_plan_items(const weft_attention_desc *desc, int64_t items,
                                       int32_t keys_of_tile,
                                       struct weft__attention_cuda_launch *launch,
                                       struct weft__cuda_choice *choice)
{
    if (items > INT32_MAX || (int64_t)desc->max_q_tokens * launch->group_size > INT32_MAX) {
        snprintf(choice->text, sizeof choice->text, "attention: more than 2^31 rows of queries");
        return WEFT_EUNSUPPORTED;
    }
    plan_chunks(desc, keys_of_tile, launch);
    launch->chunks_most = launch->splits;
    if (launch->chunk_tiles)
        launch->chunks_most =
            (int32_t)weft__ceil_div(tiles_most(desc, keys_of_tile), launch->chunk_tiles);
    // Counts on the device are of 32 bits: items stay whole where there may be more tiles than that.
    if (!launch->chunks_most &&
        items > INT32_MAX / (desc->max_kv_len / keys_of_tile + 2 + END_MOST))
        launch->splits = launch->chunks_most = 1;
    return WEFT_OK;
}

int32_t weft__attention_tiles_of(const weft_attention_desc *desc, int32_t keys_of_tile,
                                 int32_t bytes)
{
    const int32_t elem_bytes = weft__attention_is_byte(&desc->kv) ? 1 : 2;
    return at_most(weft__ceil_div(bytes, 2 * keys_of_tile * desc->kv.head_dim * elem_bytes),
                   END_MOST);
}

// A block of decode has one, a block that reads whole tokens one a KV head.
static int64_t places_of(const struct weft__attention_cuda_launch *launch)
{
    const int64_t abreast = (int64_t)launch->abreast.blocks * launch->num_kv_heads;
    return abreast > launch->blocks ? abreast : launch->blocks;
}

weft_status weft__attention_plan_workspace(int64_t slot_floats, int64_t items,
                                           struct weft__attention_cuda_launch *launch,
                                           struct weft__cuda_choice *choice)
{
    int64_t slots = 2 * (int64_t)launch->blocks; // of equal shares
    if (weft__attention_in_chunks(launch)) {
        slots = items * launch->chunks_most;
        if (slots > INT32_MAX) {
            snprintf(
                choice->text, sizeof choice->text,
                "attention: more than 2^31 chunks of keys: fewer num_splits, or more chunk_keys");
            return WEFT_EUNSUPPORTED;
        }
        launch->blocks = (uint32_t)slots;
    }
    if (launch->splits == 1)
        return WEFT_OK;
    launch->places = launch->handed ? places_of(launch) : 0;
    const int64_t places_bytes = launch->places * WEFT__ATTENTION_HANDED_FLOATS * 4;
    int64_t bytes = launch->handed ? places_bytes : slots * slot_floats * 4;
    // prefill's are written when nobody reads these any more
    bytes = bytes > launch->slice_bytes ? bytes : launch->slice_bytes;
    launch->counters_offset = (bytes + 255) / 256 * 256;
    choice->workspace_bytes =
        (size_t)(launch->counters_offset + places_bytes) + launch->blocks * sizeof(uint32_t);
    return WEFT_OK;
}

int32_t weft__attention_plan_slices(const weft_attention_desc *desc, int32_t blocks,
                                    int32_t rows_of_item,
                                    struct weft__attention_cuda_launch *launch)
{
    const int64_t bytes = blocks * weft__attention_slot_floats(desc->kv.head_dim, rows_of_item) * 4;
    if (weft__attention_in_chunks(launch) || desc->max_kv_len <= launch->thresholds.whole_keys ||
        (desc->max_workspace_bytes > 0 && bytes + SLICED_SPARE > desc->max_workspace_bytes))
        return 0;
    launch->slice_bytes = bytes > launch->slice_bytes ? bytes : launch->slice_bytes;
    return blocks;
}

int32_t weft__attention_even_splits(const struct weft__attention_cuda_launch *launch,
                                    int32_t num_seqs)
{
    const bool even = num_seqs == 1 && launch->most_rows <= launch->few_rows;
    if (!even || launch->any || weft__attention_in_chunks(launch))
        return 0;
    return (int32_t)launch->blocks / launch->num_kv_heads;
}

int32_t weft__attention_heads_abreast(const struct weft__attention_cuda_launch *launch,
                                      uint32_t blocks)
{
    int32_t heads = launch->num_kv_heads;
    while (heads > 1 &&
           (launch->num_kv_heads % heads != 0 || blocks % (uint32_t)heads * IDLE_SHARE > blocks))
        heads--;
    return heads;
}

const char *weft__attention_division_text(const struct weft__attention_cuda_launch *launch,
                                          int32_t keys_of_tile, char text[64])
{
    text[0] = 0;
    if (launch->splits == 1)
        snprintf(text, 64, ", items whole");
    else if (launch->splits)
        snprintf(text, 64, ", items in %d chunks", launch->splits);
    else if (launch->chunk_tiles)
        snprintf(text, 64, ", chunks of %lld keys", (long long)launch->chunk_tiles * keys_of_tile);
    return text;
}
