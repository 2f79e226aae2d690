// SPDX-License-Identifier: MIT
// The division of a run's work. Everything is a function of the lengths and of the plan: a run
// allocates nothing, and two runs of the same lengths do the same.
#include "src/kernels/attention/attention_work.h"

#include "src/base/checked.h"

enum {
    CHUNK_STEP = 64, // the block of keys of the SIMD kernels
};

static int32_t queries_of(const struct weft__attention_lengths *lengths, int32_t seq)
{
    return lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq];
}

static int32_t tiles_of(const struct weft__attention_launch *launch, int32_t q_len)
{
    return (int32_t)weft__ceil_div(q_len, weft__attention_tile_tokens(launch, q_len));
}

static struct weft__attention_span tile_span(const struct weft__attention_launch *launch,
                                             const struct weft__attention_lengths *lengths,
                                             int32_t seq, int32_t tile)
{
    int32_t q_len = queries_of(lengths, seq), most = weft__attention_tile_tokens(launch, q_len);
    int32_t first = tile * most, tokens = q_len - first < most ? q_len - first : most;
    return weft__attention_union(&launch->mask, q_len, lengths->kv_lens[seq],
                                 weft__attention_start(lengths, seq), first, tokens);
}

static int32_t tile_keys(const struct weft__attention_launch *launch,
                         const struct weft__attention_lengths *lengths, int32_t seq, int32_t tile)
{
    struct weft__attention_span span = tile_span(launch, lengths, seq, tile);
    return span.end - span.begin;
}

// Keys that the tile that sees most of a sequence sees. Spans move to the right with the query: where
// they end decides without a window, where they begin with a full mask, else both ends move alike.
static int32_t longest_span(const struct weft__attention_launch *launch,
                            const struct weft__attention_lengths *lengths, int32_t seq)
{
    int32_t last = tiles_of(launch, queries_of(lengths, seq)) - 1;
    const struct weft__attention_mask *mask = &launch->mask;
    int32_t longest = 0;
    if (mask->local_chunk > 0 || (mask->window > 0 && mask->window_right > 0)) { // look at all
        for (int32_t tile = 0; tile <= last; tile++) {
            int32_t keys = tile_keys(launch, lengths, seq, tile);
            longest = keys > longest ? keys : longest;
        }
        return longest;
    }
    const int32_t tiles[] = {0, last > 0 ? last - 1 : 0, last};
    for (int i = 0; i < 3; i++) {
        int32_t keys = tile_keys(launch, lengths, seq, tiles[i]);
        longest = keys > longest ? keys : longest;
    }
    return longest;
}

static int32_t chunks_of(const struct weft__attention_launch *launch, int64_t chunk_keys,
                         const struct weft__attention_lengths *lengths, int32_t seq)
{
    if (launch->num_splits > 0)
        return launch->num_splits;
    if (chunk_keys == 0 || queries_of(lengths, seq) > launch->split_tokens)
        return 1;
    int32_t chunks = (int32_t)weft__ceil_div(longest_span(launch, lengths, seq), chunk_keys);
    return chunks < 1 ? 1 : chunks;
}

// Slots that chunks of that length need.
static int64_t slots_needed(const struct weft__attention_launch *launch,
                            const struct weft__attention_lengths *lengths, int64_t chunk_keys)
{
    int64_t slots = 0;
    for (int32_t s = 0; s < lengths->num_seqs; s++) {
        int64_t tiles = tiles_of(launch, queries_of(lengths, s));
        int32_t chunks = tiles ? chunks_of(launch, chunk_keys, lengths, s) : 1;
        slots += chunks > 1 ? tiles * launch->head_tiles * chunks : 0;
    }
    return slots;
}

// Keys that are worth a task of a run that reads `keys` in all.
static int64_t least_chunk(const struct weft__attention_launch *launch,
                           const struct weft__attention_lengths *lengths, int64_t keys)
{
    const int64_t even = weft__ceil_div(keys, WEFT__ATTENTION_FEW_TASKS);
    const int64_t rows = (int64_t)lengths->cu_q_lens[lengths->num_seqs] * launch->tile_heads;
    if (rows > (int64_t)lengths->num_seqs * WEFT__ATTENTION_FEW_ROWS || even >= launch->least_chunk)
        return launch->least_chunk;
    return even < launch->least_of_few ? launch->least_of_few : weft__align_up(even, CHUNK_STEP);
}

// The length of a chunk that makes about the tasks that a run should have.
static int64_t choose_chunk(const struct weft__attention_launch *launch,
                            const struct weft__attention_lengths *lengths)
{
    if (launch->chunk_keys > 0 || launch->num_splits > 0 || launch->max_slots == 0)
        return launch->chunk_keys;
    int64_t keys = 0, longest = 0;
    for (int32_t s = 0; s < lengths->num_seqs; s++) {
        int32_t q_len = queries_of(lengths, s);
        if (q_len <= 0)
            continue;
        int64_t span = longest_span(launch, lengths, s);
        keys += tiles_of(launch, q_len) * span;
        longest = span > longest ? span : longest;
    }
    keys *= launch->head_tiles;
    int64_t least = least_chunk(launch, lengths, keys);
    if (keys >= WEFT__ATTENTION_MANY_TILES * longest && least < WEFT__ATTENTION_LEAST_OF_MANY)
        least = WEFT__ATTENTION_LEAST_OF_MANY;
    int64_t chunk = weft__ceil_div(keys, launch->target_tasks);
    chunk = weft__ceil_div(chunk, CHUNK_STEP) * CHUNK_STEP;
    chunk = chunk < least ? least : chunk;
    while (slots_needed(launch, lengths, chunk) > launch->max_slots)
        chunk *= 2;
    return chunk;
}

struct weft__attention_totals weft__attention_divide(const struct weft__attention_launch *launch,
                                                     const struct weft__attention_lengths *lengths,
                                                     struct weft__attention_work *work)
{
    int64_t chunk_keys = choose_chunk(launch, lengths);
    struct weft__attention_work next = {0};
    for (int32_t s = 0; s < lengths->num_seqs; s++) {
        int32_t q_len = queries_of(lengths, s);
        next.tiles = tiles_of(launch, q_len);
        next.chunks = q_len ? chunks_of(launch, chunk_keys, lengths, s) : 1;
        work[s] = next;
        int32_t tiles = next.tiles * launch->head_tiles;
        next.first_task += tiles * next.chunks;
        if (next.chunks > 1) {
            next.first_merge += tiles;
            next.first_slot += (int64_t)tiles * next.chunks;
        }
    }
    work[lengths->num_seqs] = next;
    return (struct weft__attention_totals){next.first_task, next.first_merge, chunk_keys};
}

static struct weft__attention_place place(const struct weft__attention_launch *launch,
                                          const struct weft__attention_lengths *lengths,
                                          int32_t seq, const struct weft__attention_work *work,
                                          int32_t tile_number, int32_t chunk)
{
    struct weft__attention_place at = {.seq = seq, .chunk = chunk, .chunks = work[seq].chunks};
    int32_t q_len = queries_of(lengths, seq);
    at.first_head = tile_number / work[seq].tiles * launch->tile_heads;
    at.kv_head = at.first_head / launch->group_size;
    at.tile = work[seq].tiles - 1 - tile_number % work[seq].tiles;
    int32_t most = weft__attention_tile_tokens(launch, q_len);
    at.first_token = at.tile * most;
    at.tokens = q_len - at.first_token < most ? q_len - at.first_token : most;
    struct weft__attention_span span = tile_span(launch, lengths, seq, at.tile);
    int64_t keys = span.end - span.begin;
    int64_t length = weft__align_up(weft__ceil_div(keys, at.chunks), CHUNK_STEP);
    int64_t begin = chunk * length < keys ? chunk * length : keys;
    at.key0 = (int32_t)(span.begin + begin);
    at.key1 = (int32_t)(span.begin + (begin + length < keys ? begin + length : keys));
    at.slot = at.merge = -1;
    if (at.chunks > 1) {
        at.merge = work[seq].first_merge + tile_number;
        at.slot = work[seq].first_slot + (int64_t)tile_number * at.chunks + chunk;
    }
    return at;
}

struct weft__attention_place weft__attention_task(const struct weft__attention_launch *launch,
                                                  const struct weft__attention_lengths *lengths,
                                                  const struct weft__attention_work *work,
                                                  int32_t task)
{
    int32_t low = 0, high = lengths->num_seqs - 1; // the last whose first task is not above it
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (work[middle].first_task <= task)
            low = middle;
        else
            high = middle - 1;
    }
    const int32_t local = task - work[low].first_task, chunks = work[low].chunks;
    const int32_t tiles = work[low].tiles, of_head = local % (tiles * chunks);
    if (weft__attention_by_keys(launch, queries_of(lengths, low), chunks))
        return place(launch, lengths, low, work, local % launch->head_tiles,
                     local / launch->head_tiles);
    if (!weft__attention_is_few(launch, queries_of(lengths, low)))
        return place(launch, lengths, low, work, local / chunks, local % chunks);
    return place(launch, lengths, low, work, local / (tiles * chunks) * tiles + of_head % tiles,
                 of_head / tiles);
}
