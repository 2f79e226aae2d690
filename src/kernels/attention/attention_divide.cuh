// SPDX-License-Identifier: MIT
// The division of a decode run (attention_device.h): which tiles of which items a block takes. Every warp
// finds it by itself from the lengths, with one round trip to memory for up to 32 sequences.
//
// The kernel defines KEYS, the keys of a tile.
#ifndef WEFT_KERNELS_ATTENTION_DIVIDE_CUH
#define WEFT_KERNELS_ATTENTION_DIVIDE_CUH

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/attention/attention_mask.cuh"

// The tiles of a sequence: which keys they hold, how many items and tiles there are.
struct sequence {
    int32_t index, q_len, kv_len, first_token;
    int32_t first_key, end_key; // what its queries see between them
    int32_t begin;              // of the first tile
    int32_t tiles;              // of each item
    int32_t items;              // KV heads x tiles of rows
};

DEVICE struct sequence sequence_from(const struct weft__attention_device_args *args, int32_t index,
                                     int32_t first_token, int32_t q_len, int32_t kv_len)
{
    struct sequence s = {index, q_len, kv_len, first_token, 0, 0, 0, 0, 0};
    if (q_len <= 0)
        return s;
    s.first_key = min(first_key_of(args, index, q_len, kv_len, 0), kv_len);
    s.end_key = keys_of(args, index, q_len, kv_len, q_len - 1).end;
    s.begin = s.first_key / KEYS * KEYS;
    s.tiles = s.end_key > s.begin ? (s.end_key - s.begin + KEYS - 1) / KEYS : 1;
    s.items = (q_len * args->group_size + WEFT__ATTENTION_ROWS - 1) / WEFT__ATTENTION_ROWS *
              args->num_kv_heads;
    return s;
}

DEVICE struct sequence sequence_of(const struct weft__attention_device_args *args, int32_t index)
{
    if (index >= args->num_seqs)
        return sequence_from(args, index, 0, 0, 0);
    int32_t first = args->cu_q_lens[index];
    return sequence_from(args, index, first, args->cu_q_lens[index + 1] - first,
                         args->kv_lens[index]);
}

// Work of a sequence: its tiles, or its items where items stay whole.
DEVICE int32_t sequence_cost(const struct weft__attention_device_args *args,
                             const struct sequence *s)
{
    return args->whole_items ? s->items : s->tiles * s->items;
}

// A place in the list of all tiles.
struct place {
    struct sequence seq;
    int32_t kv_head, row_tile; // the item
    int32_t tile;              // of the item
    int32_t left;              // tiles of the share from here on
};

// Goes `tiles` further; 0 <= tiles <= left, at most to the end of the item.
DEVICE void place_advance(const struct weft__attention_device_args *args, struct place *at,
                          int32_t tiles)
{
    at->tile += tiles, at->left -= tiles;
    if (at->tile < at->seq.tiles || at->left == 0)
        return;
    at->tile = 0;
    if (++at->kv_head < args->num_kv_heads)
        return;
    at->kv_head = 0;
    if (++at->row_tile * args->num_kv_heads < at->seq.items)
        return;
    at->row_tile = 0;
    do
        at->seq = sequence_of(args, at->seq.index + 1);
    while (at->seq.items == 0);
}

// The tiles of the place's item that belong to the share.
DEVICE int32_t place_tiles(const struct place *at)
{
    int32_t rest = at->seq.tiles - at->tile;
    return rest < at->left ? rest : at->left;
}

DEVICE int32_t scan_sum(int32_t value, int32_t lane)
{
#pragma unroll
    for (int32_t step = 1; step < WARP; step *= 2) {
        int32_t other = __shfl_up_sync(0xffffffffu, value, step);
        value += lane >= step ? other : 0;
    }
    return value;
}

// Where the work `begin` of the list lies; `cost` and its running `sum` are those of the sequences i0...
// (one a lane); `before` is the work ahead of them.
DEVICE bool place_find(const struct weft__attention_device_args *args, struct place *at,
                       int32_t begin, const struct sequence *own, int32_t cost, int32_t sum,
                       int32_t before)
{
    uint32_t behind = __ballot_sync(0xffffffffu, before + sum > begin);
    if (!behind)
        return false;
    int32_t lane = __ffs((int32_t)behind) - 1;
    int32_t skipped = begin - before - __shfl_sync(0xffffffffu, sum - cost, lane);
    int32_t index = __shfl_sync(0xffffffffu, own->index, lane);
    int32_t token = __shfl_sync(0xffffffffu, own->first_token, lane);
    int32_t q_len = __shfl_sync(0xffffffffu, own->q_len, lane);
    int32_t kv_len = __shfl_sync(0xffffffffu, own->kv_len, lane);
    at->seq = sequence_from(args, index, token, q_len, kv_len);
    int32_t item = args->whole_items ? skipped : skipped / at->seq.tiles;
    at->tile = args->whole_items ? 0 : skipped - item * at->seq.tiles;
    at->row_tile = item / args->num_kv_heads;
    at->kv_head = item - at->row_tile * args->num_kv_heads;
    return true;
}

// The share of block `block` of `blocks`; `per` receives the tiles of a share. left 0: nothing to do.
DEVICE struct place share_of(const struct weft__attention_device_args *args, int32_t block,
                             int32_t blocks, int32_t lane, int32_t *per)
{
    struct sequence own = sequence_of(args, lane);
    int32_t cost = sequence_cost(args, &own), sum = scan_sum(cost, lane);
    int32_t first = __shfl_sync(0xffffffffu, sum, WARP - 1), total = first;
    for (int32_t i0 = WARP; i0 < args->num_seqs; i0 += WARP) {
        struct sequence s = sequence_of(args, i0 + lane);
        total += __shfl_sync(0xffffffffu, scan_sum(sequence_cost(args, &s), lane), WARP - 1);
    }
    *per = max((total + blocks - 1) / blocks, args->min_share);
    if (args->whole_items)
        *per = 1;
    int32_t begin = block * *per;
    struct place at;
    at.left = begin >= total ? 0 : min(total - begin, *per);
    if (at.left == 0)
        return at;
    bool found = place_find(args, &at, begin, &own, cost, sum, 0);
    for (int32_t i0 = WARP, before = first; !found; i0 += WARP) {
        own = sequence_of(args, i0 + lane);
        cost = sequence_cost(args, &own), sum = scan_sum(cost, lane);
        found = place_find(args, &at, begin, &own, cost, sum, before);
        before += __shfl_sync(0xffffffffu, sum, WARP - 1);
    }
    if (args->whole_items)
        at.left = at.seq.tiles;
    return at;
}

#endif
