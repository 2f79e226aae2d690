// SPDX-License-Identifier: MIT
// Equal shares without an end that is waited for, where a run has many items that are a fraction of a share and some that are more: a
// block has items of the former whole, and fills its share up with tiles of the latter, which it reads first. So states that others
// merge are handed on when their blocks have whole items yet to read, and no short item is cut.
//
//      long items' list     | 0   | 1         | 2     | ...    block i's part: i * each - P(i) to (i + 1) * each - P(i + 1)
//      short items' list      0 0 0 | 1 1 | 2 2 2 |   ...      whole items: those that begin from P(i) to before P(i + 1)
//
// P(i): where the first short item begins that begins at or behind block i's even part of their list.
#ifndef WEFT_KERNELS_ATTENTION_FILLED_CUH
#define WEFT_KERNELS_ATTENTION_FILLED_CUH

#include "src/kernels/attention/attention_divide.cuh"

enum { FILLED_GROUPS = 2 }; // of 32 sequences

// A filled share, of a warp, in shared memory.
struct filled {
    struct place items;            // the first of its whole items; left 0: it has none
    uint32_t of_kind[2][FILLED_GROUPS]; // sequences of long items, of short ones
    int32_t first;                 // the block in which its first long item begins, where that ends in the share
};

// A list of items, of sequences 32 g + lane.
struct fill_list {
    int32_t cost[FILLED_GROUPS], items[FILLED_GROUPS]; // of an item; 0: of none
    int32_t sum[FILLED_GROUPS];                        // of all up to the lane's
    int32_t total;
};

DEVICE void fill_sum(struct fill_list *list, int32_t lane)
{
    list->total = 0;
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++) {
        list->sum[g] = list->total + scan_sum(list->cost[g] * list->items[g], lane);
        list->total = __shfl_sync(0xffffffffu, list->sum[g], WARP - 1);
    }
}

// Where a point of a list lies: whose it is, and where that sequence's items begin.
struct fill_point {
    int32_t group, lane; // group FILLED_GROUPS: behind the list
    int32_t begin, cost, items;
};

DEVICE struct fill_point fill_find(const struct fill_list *list, int32_t at)
{
    struct fill_point point = {FILLED_GROUPS, 0, list->total, 1, 0};
#pragma unroll
    for (int32_t g = FILLED_GROUPS - 1; g >= 0; g--) {
        const uint32_t behind = __ballot_sync(0xffffffffu, list->sum[g] > at);
        if (!behind)
            continue;
        point.group = g, point.lane = __ffs((int32_t)behind) - 1;
        point.cost = __shfl_sync(0xffffffffu, list->cost[g], point.lane);
        point.items = __shfl_sync(0xffffffffu, list->items[g], point.lane);
        point.begin = __shfl_sync(0xffffffffu, list->sum[g], point.lane) - point.cost * point.items;
    }
    return point;
}

// P(number) of `blocks`.
DEVICE int32_t fill_begin(const struct fill_list *shorts, int32_t number, int32_t blocks)
{
    const int32_t each = shorts->total / blocks, rest = shorts->total - each * blocks;
    const int32_t even = number * each + min(number, rest);
    const struct fill_point point = fill_find(shorts, even);
    return point.begin +
           min((even - point.begin + point.cost - 1) / point.cost, point.items) * point.cost;
}

// The place at `begin` of a list.
DEVICE struct place fill_place(const struct weft__attention_device_args *args,
                               const struct sequence own[FILLED_GROUPS],
                               const struct fill_list *list, int32_t begin)
{
    struct place at;
    const struct fill_point point = fill_find(list, begin);
    const struct sequence group = point.group > 0 ? own[1] : own[0];
    at.seq = sequence_shuffle(&group, point.lane);
    const int32_t item = (begin - point.begin) / point.cost;
    at.tile = begin - point.begin - item * point.cost;
    at.row_tile = item / args->heads_each;
    at.kv_head =
        (item - at.row_tile * args->heads_each) * args->heads_abreast + file_of_block(args);
    return at;
}

// The sequences, short items' list and the other.
DEVICE void fill_lists(const struct weft__attention_device_args *args, int32_t lane,
                       struct sequence own[FILLED_GROUPS], struct fill_list lists[2],
                       struct filled *filled)
{
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++)
        own[g] = sequence_of(args, g * WARP + lane);
#pragma unroll
    for (int32_t kind = 0; kind < 2; kind++) {
#pragma unroll
        for (int32_t g = 0; g < FILLED_GROUPS; g++) {
            const bool is = own[g].items > 0 && (own[g].tiles * KEYS <= WHOLE_KEYS) == (kind > 0);
            const uint32_t all = __ballot_sync(0xffffffffu, is);
            lists[kind].items[g] = is ? own[g].items : 0;
            lists[kind].cost[g] =
                is ? own[g].tiles + args->end_tiles + (kind ? 0 : args->merge_tiles) : 0;
            if (lane == 0)
                filled->of_kind[kind][g] = all;
        }
        fill_sum(&lists[kind], lane);
    }
}

// A block's share of both lists: long items from `begin` to `end`, short ones from `from` to `to`; the block in which the item at
// `begin` begins, if that is one before.
struct fill_share {
    int32_t begin, end, from, to;
    int32_t first;
};

// Of block `number` of `blocks`, each with `each` of the work. One copy of P's text looks for all of it.
DEVICE struct fill_share fill_share_of(const struct fill_list *longs,
                                       const struct fill_list *shorts, int32_t each,
                                       int32_t number, int32_t blocks)
{
    struct fill_share share = {0, 0, 0, 0, 0};
    int32_t item = 0, last = number; // the list's place that block `first` has; none behind block `last`
#pragma unroll 1
    for (int32_t i = 0, of = number;; i++) {
        const int32_t begin = fill_begin(shorts, of, blocks);
        if (i == 0) {
            share.from = begin, of = number + 1;
            continue;
        }
        if (i == 1) {
            share.to = begin;
            share.begin = min(number * each - share.from, longs->total);
            share.end = min((number + 1) * each - begin, longs->total);
            const struct fill_point point = fill_find(longs, share.begin);
            item = share.begin - (share.begin - point.begin) % point.cost;
        } else if (of * each - begin > item) {
            last = of - 1;
        } else {
            share.first = of;
        }
        if (share.first >= last)
            return share;
        of = (share.first + last) / 2 + 1;
    }
}

// The block's share, filled up. False where the run's shares had better not be: no item is short, or long ones are too few to make shares of
// whole items equal.
DEVICE bool place_fill(const struct weft__attention_device_args *args, int32_t lane,
                       struct filled *filled, struct place *at)
{
    if (in_chunks(args) || args->num_seqs > FILLED_GROUPS * WARP || args->num_seqs < 2)
        return false;
    const int32_t blocks = (int32_t)gridDim.x / files_of(args);
    struct sequence own[FILLED_GROUPS];
    struct fill_list lists[2];
    fill_lists(args, lane, own, lists, filled);
    const struct fill_list *const longs = &lists[0], *const shorts = &lists[1];
    const int32_t most = (int32_t)warp_most((uint32_t)max(shorts->cost[0], shorts->cost[1]));
    const int32_t each =
        max((longs->total + shorts->total + blocks - 1) / blocks, args->min_share);
    // every part of a long item has a tile for each warp
    if (shorts->total == 0 || shorts->total / blocks + 1 + most + args->min_share > each)
        return false;
    const struct fill_share share =
        fill_share_of(longs, shorts, each, number_of_block(args), blocks);
#pragma unroll 1
    for (int32_t kind = 1; kind >= 0; kind--) {
        struct fill_list list = kind ? *shorts : *longs;
        const int32_t left = kind ? share.to - share.from : share.end - share.begin;
        if (kind == 0 && left == 0)
            break;
        *at = fill_place(args, own, &list, kind ? share.from : share.begin);
        at->left = left, at->whole = kind, at->filled = filled;
        if (kind && lane == 0)
            filled->items = *at, filled->first = share.first;
    }
    __syncwarp();
    if (!at->whole && at->tile >= at->seq.tiles) { // within an end: back to where it begins, and over it
        at->left += at->tile - at->seq.tiles, at->tile = at->seq.tiles;
        place_advance(args, at, 0);
    }
    return true;
}

// What the end of the place's item counts for: of one that several blocks share, its merge besides.
DEVICE int32_t end_of(const struct weft__attention_device_args *args, const struct place *at)
{
    return args->end_tiles + (at->filled && !at->whole ? args->merge_tiles : 0);
}

// A filled share's long part is over: its whole items follow, if there are any.
DEVICE bool place_goes_on(struct place *at)
{
    if (!at->filled || at->whole)
        return false;
    *at = at->filled->items;
    return true;
}

DEVICE int32_t first_holder(const struct weft__attention_device_args *args, const struct place *at,
                            struct share share)
{
    return at->filled ? at->filled->first : holders_of(args, at, share).first;
}

// The sequence behind the place's, of its kind where the share is filled.
DEVICE int32_t sequence_behind(const struct place *at)
{
    const int32_t next = at->seq.lengths.seq + 1;
    if (!at->filled)
        return next;
    const uint32_t *const all = at->filled->of_kind[at->whole];
    int32_t g = next / WARP;
    uint32_t rest = g < FILLED_GROUPS ? all[g] >> next % WARP << next % WARP : 0;
    while (!rest && ++g < FILLED_GROUPS)
        rest = all[g];
    return g * WARP + __ffs((int32_t)rest) - 1;
}

#endif
