// SPDX-License-Identifier: MIT
// The division of a run's work. Everything is a function of the lengths and of the plan: a run
// allocates nothing, and two runs of the same lengths do the same.
#include "src/kernels/attention/attention_work.h"

#include "src/base/checked.h"

enum {
    CHUNK_STEP = 64, // the block of keys of the SIMD kernels
};

static struct weft__attention_span tile_span(const struct weft__attention_launch *launch,
                                             int32_t q_len, int32_t kv_len, int32_t tile)
{
    int32_t first = tile * launch->tile_tokens;
    int32_t tokens = q_len - first < launch->tile_tokens ? q_len - first : launch->tile_tokens;
    return weft__attention_union(launch->mask, launch->window, q_len, kv_len, first, tokens);
}

// Keys that the tile that sees most of a sequence sees. Spans move to the right with the query: with a
// window the widest is among the last, without one it is the last.
static int32_t longest_span(const struct weft__attention_launch *launch, int32_t q_len,
                            int32_t kv_len)
{
    int32_t last = (int32_t)weft__ceil_div(q_len, launch->tile_tokens) - 1, longest = 0;
    for (int32_t tile = last > 0 ? last - 1 : 0; tile <= last; tile++) {
        struct weft__attention_span span = tile_span(launch, q_len, kv_len, tile);
        longest = span.end - span.begin > longest ? span.end - span.begin : longest;
    }
    // A window of a full mask reaches to the end: the first query sees most.
    if (launch->mask == WEFT_MASK_FULL && launch->window > 0) {
        struct weft__attention_span span = tile_span(launch, q_len, kv_len, 0);
        longest = span.end - span.begin > longest ? span.end - span.begin : longest;
    }
    return longest;
}

static int32_t chunks_of(const struct weft__attention_launch *launch, int64_t chunk_keys,
                         int32_t q_len, int32_t kv_len)
{
    if (launch->num_splits > 0)
        return launch->num_splits;
    if (chunk_keys == 0 || q_len > launch->split_tokens)
        return 1;
    int32_t chunks = (int32_t)weft__ceil_div(longest_span(launch, q_len, kv_len), chunk_keys);
    return chunks < 1 ? 1 : chunks;
}

// Slots that chunks of that length need.
static int64_t slots_needed(const struct weft__attention_launch *launch, int32_t num_seqs,
                            const int32_t *cu, const int32_t *kv_lens, int64_t chunk_keys)
{
    int64_t slots = 0;
    for (int32_t s = 0; s < num_seqs; s++) {
        int32_t q_len = cu[s + 1] - cu[s];
        int64_t tiles = weft__ceil_div(q_len, launch->tile_tokens);
        int32_t chunks = tiles ? chunks_of(launch, chunk_keys, q_len, kv_lens[s]) : 1;
        slots += chunks > 1 ? tiles * launch->kv.num_kv_heads * chunks : 0;
    }
    return slots;
}

// The length of a chunk that makes about the tasks that a run should have.
static int64_t choose_chunk(const struct weft__attention_launch *launch, int32_t num_seqs,
                            const int32_t *cu, const int32_t *kv_lens)
{
    if (launch->chunk_keys > 0 || launch->num_splits > 0 || launch->max_slots == 0)
        return launch->chunk_keys;
    int64_t keys = 0;
    for (int32_t s = 0; s < num_seqs; s++) {
        int32_t q_len = cu[s + 1] - cu[s];
        if (q_len > 0)
            keys += weft__ceil_div(q_len, launch->tile_tokens) *
                    longest_span(launch, q_len, kv_lens[s]);
    }
    int64_t chunk = weft__ceil_div(keys * launch->kv.num_kv_heads, launch->target_tasks);
    chunk = weft__ceil_div(chunk, CHUNK_STEP) * CHUNK_STEP;
    chunk = chunk < WEFT__ATTENTION_LEAST_CHUNK ? WEFT__ATTENTION_LEAST_CHUNK : chunk;
    while (slots_needed(launch, num_seqs, cu, kv_lens, chunk) > launch->max_slots)
        chunk *= 2;
    return chunk;
}

struct weft__attention_totals weft__attention_divide(const struct weft__attention_launch *launch,
                                                     int32_t num_seqs, const int32_t *cu_q_lens,
                                                     const int32_t *kv_lens,
                                                     struct weft__attention_work *work)
{
    int64_t chunk_keys = choose_chunk(launch, num_seqs, cu_q_lens, kv_lens);
    struct weft__attention_work next = {0};
    for (int32_t s = 0; s < num_seqs; s++) {
        int32_t q_len = cu_q_lens[s + 1] - cu_q_lens[s];
        next.tiles = (int32_t)weft__ceil_div(q_len, launch->tile_tokens);
        next.chunks = q_len ? chunks_of(launch, chunk_keys, q_len, kv_lens[s]) : 1;
        work[s] = next;
        int32_t tiles = next.tiles * launch->kv.num_kv_heads;
        next.first_task += tiles * next.chunks;
        if (next.chunks > 1) {
            next.first_merge += tiles;
            next.first_slot += (int64_t)tiles * next.chunks;
        }
    }
    work[num_seqs] = next;
    return (struct weft__attention_totals){next.first_task, next.first_merge, chunk_keys};
}

// The sequence that owns a number: the last one whose first is not above it.
#define FIND_OWNER(member)                                                                         \
    int32_t low = 0, high = num_seqs - 1;                                                          \
    while (low < high) {                                                                           \
        int32_t middle = low + (high - low + 1) / 2;                                               \
        if (work[middle].member <= task)                                                           \
            low = middle;                                                                          \
        else                                                                                       \
            high = middle - 1;                                                                     \
    }

static struct weft__attention_place place(const struct weft__attention_launch *launch, int32_t seq,
                                          const int32_t *cu_q_lens, const int32_t *kv_lens,
                                          const struct weft__attention_work *work,
                                          int32_t tile_number, int32_t chunk)
{
    struct weft__attention_place at = {.seq = seq, .chunk = chunk, .chunks = work[seq].chunks};
    int32_t q_len = cu_q_lens[seq + 1] - cu_q_lens[seq];
    at.kv_head = tile_number / work[seq].tiles;
    at.tile = work[seq].tiles - 1 - tile_number % work[seq].tiles;
    at.first_token = at.tile * launch->tile_tokens;
    at.tokens =
        q_len - at.first_token < launch->tile_tokens ? q_len - at.first_token : launch->tile_tokens;
    struct weft__attention_span span = tile_span(launch, q_len, kv_lens[seq], at.tile);
    int64_t keys = span.end - span.begin;
    int64_t length = weft__ceil_div(keys, at.chunks);
    int64_t begin = chunk * length < keys ? chunk * length : keys;
    at.key0 = (int32_t)(span.begin + begin);
    at.key1 = (int32_t)(span.begin + (begin + length < keys ? begin + length : keys));
    at.slot = at.chunks > 1 ? work[seq].first_slot + (int64_t)tile_number * at.chunks + chunk : -1;
    return at;
}

struct weft__attention_place weft__attention_task(const struct weft__attention_launch *launch,
                                                  int32_t num_seqs, const int32_t *cu_q_lens,
                                                  const int32_t *kv_lens,
                                                  const struct weft__attention_work *work,
                                                  int32_t task)
{
    FIND_OWNER(first_task)
    int32_t local = task - work[low].first_task;
    return place(launch, low, cu_q_lens, kv_lens, work, local / work[low].chunks,
                 local % work[low].chunks);
}

struct weft__attention_place weft__attention_merge_task(const struct weft__attention_launch *launch,
                                                        int32_t num_seqs, const int32_t *cu_q_lens,
                                                        const int32_t *kv_lens,
                                                        const struct weft__attention_work *work,
                                                        int32_t task)
{
    FIND_OWNER(first_merge)
    return place(launch, low, cu_q_lens, kv_lens, work, task - work[low].first_merge, 0);
}
