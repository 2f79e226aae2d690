// SPDX-License-Identifier: MIT
// The division of a decode run of up to 64 sequences (attention_divide.cuh), found on one trip to memory; and filled shares: equal ones without
// an end that is waited for, where a run has many items that are a fraction of a share and some that are more. A block has items of the former
// whole, and fills its share up with tiles of the latter, which it reads first. So states that others merge are handed on when
// their blocks have whole items yet to read, and no short item is cut.
//
//      long items' list     | 0   | 1         | 2     | ...    block i's part: i * each - P(i) to (i + 1) * each - P(i + 1)
//      short items' list      0 0 0 | 1 1 | 2 2 2 |   ...      whole items: those that begin from P(i) to before P(i + 1)
//
// P(i): where the first short item begins that begins at or behind block i's even part of their list. Where shares are not filled all items
// are in the first list.
#ifndef WEFT_KERNELS_ATTENTION_FILLED_CUH
#define WEFT_KERNELS_ATTENTION_FILLED_CUH

#include "src/kernels/attention/attention_divide.cuh"

enum { FILLED_GROUPS = 2, FILLED_SEQS = FILLED_GROUPS * WARP };

// The sequences of a run, sequences 32 g + lane, as a lane has asked for them.
struct fill_lengths {
    struct lengths of[FILLED_GROUPS];
    const int32_t *pages[FILLED_GROUPS];
};

// All of them, in shared memory: a share goes on from one to the next without a trip to memory.
struct fill_known {
    struct lengths of[FILLED_SEQS];
    const int32_t *pages[FILLED_SEQS];
};

// A filled share, of a warp, in shared memory.
struct filled {
    struct place items;                 // the first of its whole items; left 0: it has none
    uint32_t of_kind[2][FILLED_GROUPS]; // sequences of long items, of short ones
    const struct fill_known *known;
    int32_t first; // the block in which its first long item begins, where that ends in the share
};

// A list of items, of sequences 32 g + lane.
struct fill_list {
    uint32_t cost[FILLED_GROUPS], items[FILLED_GROUPS]; // of an item; items 0: none
    uint32_t sum[FILLED_GROUPS];                        // of all up to the lane's
    uint32_t total;
};

// Where a point of a list lies: whose it is, and where that sequence's items begin.
struct fill_point {
    int32_t group, lane; // group FILLED_GROUPS: behind the list
    uint32_t begin, cost, items;
};

DEVICE struct fill_point fill_find(const struct fill_list *list, uint32_t at)
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

// What a run's lists and shares are.
struct fill {
    struct fill_list longs, shorts;
    uint32_t blocks, each;             // of a file; the work of each
    uint32_t shorts_each, shorts_rest; // of a block; what is left over
};

// P(number).
DEVICE uint32_t fill_begin(const struct fill *fill, uint32_t number)
{
    const uint32_t even = number * fill->shorts_each + min(number, fill->shorts_rest);
    const struct fill_point point = fill_find(&fill->shorts, even);
    return point.begin +
           min((even - point.begin + point.cost - 1) / point.cost, point.items) * point.cost;
}

// The place at `begin` of a list.
DEVICE struct place fill_place(const struct weft__attention_device_args *args,
                               const struct sequence own[FILLED_GROUPS],
                               const struct fill_list *list, uint32_t begin)
{
    struct place at;
    const struct fill_point point = fill_find(list, begin);
    const struct sequence group = point.group > 0 ? own[1] : own[0];
    const uint32_t skipped = begin - point.begin, item = skipped / point.cost;
    at.seq = sequence_shuffle(&group, point.lane);
    at.tile = (int32_t)(skipped - item * point.cost);
    at.row_tile = args->heads_each == 1 ? (int32_t)item : (int32_t)item / args->heads_each;
    at.kv_head = ((int32_t)item - at.row_tile * args->heads_each) * args->heads_abreast +
                 file_of_block(args);
    return at;
}

DEVICE void fill_ask(const struct weft__attention_device_args *args, int32_t lane,
                     struct fill_lengths *lengths)
{
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++)
        lengths->of[g] = lengths_of(args, g * WARP + lane, &lengths->pages[g]);
}

// The block's first warp.
DEVICE void fill_know(const struct fill_lengths *lengths, int32_t lane, struct fill_known *known)
{
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS && threadIdx.x < WARP; g++)
        known->of[g * WARP + lane] = lengths->of[g],
                             known->pages[g * WARP + lane] = lengths->pages[g];
}

// The sequences, and all items as a list. One copy of the text, whose second round, if there is one, is behind no trip to memory.
DEVICE void fill_list_all(const struct weft__attention_device_args *args, int32_t lane,
                          const struct fill_lengths *lengths, struct sequence own[FILLED_GROUPS],
                          struct fill_list *list)
{
    list->total = 0;
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++) {
        own[g].items = 0, own[g].tiles = 0;
        list->cost[g] = 1, list->items[g] = 0, list->sum[g] = 0;
    }
#pragma unroll 1
    for (int32_t g = 0; g * WARP < args->num_seqs; g++) {
        struct sequence seq = sequence_from(args, g ? lengths->of[1] : lengths->of[0]);
        seq.pages = g ? lengths->pages[1] : lengths->pages[0];
        const uint32_t cost = (uint32_t)(seq.tiles + args->end_tiles), items = (uint32_t)seq.items;
        const uint32_t sum = list->total + (uint32_t)scan_sum((int32_t)(cost * items), lane);
#pragma unroll
        for (int32_t i = 0; i < FILLED_GROUPS; i++)
            if (i == g)
                own[i] = seq, list->cost[i] = cost, list->items[i] = items, list->sum[i] = sum;
        list->total = __shfl_sync(0xffffffffu, sum, WARP - 1);
    }
}

// Sums of a list whose items and their costs are known.
DEVICE void fill_sum(struct fill_list *list, int32_t lane)
{
    list->total = 0;
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++) {
        list->sum[g] =
            list->total + (uint32_t)scan_sum((int32_t)(list->cost[g] * list->items[g]), lane);
        list->total = __shfl_sync(0xffffffffu, list->sum[g], WARP - 1);
    }
}

// Of short items: how many there are, what they count for, and one of them at most.
struct fill_shorts {
    uint32_t items, total, most;
};

DEVICE bool fill_is_short(const struct sequence *own)
{
    return own->items > 0 && own->tiles * KEYS <= WHOLE_KEYS;
}

DEVICE struct fill_shorts fill_shorts_of(const struct sequence own[FILLED_GROUPS],
                                         const struct fill_list *list)
{
    uint32_t items = 0, total = 0, most = 0;
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++)
        if (fill_is_short(&own[g])) {
            items += list->items[g], total += list->cost[g] * list->items[g];
            most = max(most, list->cost[g]);
        }
    const struct fill_shorts shorts = {(uint32_t)warp_total((int32_t)items),
                                       (uint32_t)warp_total((int32_t)total), warp_most(most)};
    return shorts;
}

// Shares are filled where there are short items, and long ones enough for every block to have a tile for each warp of them beside whole ones.
DEVICE bool fill_serves(const struct weft__attention_device_args *args, const struct fill *fill,
                        struct fill_shorts shorts)
{
    return shorts.total > 0 && shorts.total < fill->longs.total &&
           shorts.total / fill->blocks + 1 + shorts.most + (uint32_t)args->min_share <= fill->each;
}

// The list of all items becomes two. That states are merged counts as well.
DEVICE void fill_split(const struct weft__attention_device_args *args,
                       const struct sequence own[FILLED_GROUPS], int32_t lane, struct fill *fill,
                       struct filled *filled)
{
    struct fill_list *const longs = &fill->longs, *const shorts = &fill->shorts;
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++) {
        const bool is_short = fill_is_short(&own[g]);
        const uint32_t some = __ballot_sync(0xffffffffu, own[g].items > 0),
                       short_ones = __ballot_sync(0xffffffffu, is_short);
        if (lane == 0)
            filled->of_kind[0][g] = some & ~short_ones, filled->of_kind[1][g] = short_ones;
        shorts->cost[g] = longs->cost[g], shorts->items[g] = is_short ? longs->items[g] : 0;
        longs->cost[g] += (uint32_t)args->merge_tiles;
        longs->items[g] = is_short ? 0 : longs->items[g];
    }
    fill_sum(longs, lane);
    fill_sum(shorts, lane);
    fill->each = (longs->total + shorts->total + fill->blocks - 1) / fill->blocks;
    fill->shorts_each = shorts->total / fill->blocks;
    fill->shorts_rest = shorts->total - fill->shorts_each * fill->blocks;
}

// Where all items are short (place_begin()): is each a block's own? Then it counts for one. Where they are alike, shares may end where items do.
DEVICE bool fill_whole(struct fill *fill, struct fill_shorts shorts, int32_t lane)
{
    const uint32_t of_block = (shorts.items + fill->blocks - 1) / fill->blocks;
    if (shorts.items > fill->blocks || 2 * shorts.most > 3 * fill->each) {
        if (shorts.most * shorts.items == shorts.total &&
            8 * of_block * shorts.most <= 9 * fill->each)
            fill->each = of_block * shorts.most;
        return false;
    }
    fill->each = 1;
#pragma unroll
    for (int32_t g = 0; g < FILLED_GROUPS; g++)
        fill->longs.cost[g] = 1;
    fill_sum(&fill->longs, lane);
    return true;
}

// The block of the file that has place `point` of the long items' list, `number` or one before it.
DEVICE int32_t fill_holder(const struct fill *fill, uint32_t point, uint32_t number)
{
    uint32_t first = 0, last = number;
#pragma unroll 1
    while (first < last) {
        const uint32_t middle = (first + last) / 2 + 1;
        if (middle * fill->each - fill_begin(fill, middle) > point)
            last = middle - 1;
        else
            first = middle;
    }
    return (int32_t)first;
}

// The block's share. False: of more sequences, or in chunks, it is place_begin() that finds it.
DEVICE bool place_fill(const struct weft__attention_device_args *args, int32_t lane,
                       const struct fill_lengths *lengths, struct filled *filled, struct place *at,
                       struct share *share)
{
    if (in_chunks(args) || args->num_seqs > FILLED_SEQS)
        return false;
    struct sequence own[FILLED_GROUPS];
    struct fill fill;
    fill.blocks = gridDim.x / (uint32_t)files_of(args);
    fill_list_all(args, lane, lengths, own, &fill.longs);
    fill.each = max((fill.longs.total + fill.blocks - 1) / fill.blocks, (uint32_t)args->min_share);
    const uint32_t number = (uint32_t)number_of_block(args);
    const struct fill_shorts shorts = fill_shorts_of(own, &fill.longs);
    const bool fills = fill_serves(args, &fill, shorts);
    if (fills)
        fill_split(args, own, lane, &fill, filled);
    const bool whole = !fills && shorts.total > 0 && shorts.total == fill.longs.total &&
                       fill_whole(&fill, shorts, lane);
    uint32_t from = 0, to = 0;
#pragma unroll 1
    for (uint32_t i = 0; fills && i < 2; i++)
        from = to, to = fill_begin(&fill, number + i);
    const uint32_t begin = min(number * fill.each - from, fill.longs.total),
                   end = min((number + 1) * fill.each - to, fill.longs.total);
    share->each = (int32_t)fill.each, share->end = (int32_t)end;
    at->left = 0;
#pragma unroll 1
    for (int32_t kind = fills; kind >= 0; kind--) {
        const struct fill_list list = kind ? fill.shorts : fill.longs;
        const uint32_t left = kind ? to - from : end - begin;
        if (kind == 0 && left == 0)
            break;
        *at = fill_place(args, own, &list, kind ? from : begin);
        at->left = (int32_t)left, at->whole = kind, at->filled = fills ? filled : NULL;
        if (kind && lane == 0)
            filled->items = *at;
    }
    if (whole && at->left > 0)
        at->left = at->seq.tiles;
    if (fills && !at->whole && at->tile > 0 && at->tile < at->seq.tiles &&
        at->tile + at->left >= at->seq.tiles) {
        const int32_t first = fill_holder(&fill, begin - (uint32_t)at->tile, number);
        if (lane == 0)
            filled->first = first;
    }
    __syncwarp();
    if (at->left > 0 &&
        at->tile >= at->seq.tiles) { // within an end: back to where it begins, and over it
        at->left += at->tile - at->seq.tiles, at->tile = at->seq.tiles;
        place_advance(args, at, 0);
    }
    return true;
}

// What the end of the place's item counts for; of one that is merged of many parts, the merge besides.
DEVICE int32_t end_of(const struct weft__attention_device_args *args, const struct place *at)
{
    return args->end_tiles + (at->filled && !at->whole ? args->merge_tiles : 0);
}

// Is the place in the long part of a filled share that has whole items behind it?
DEVICE bool place_has_more(const struct place *at)
{
    return at->filled && !at->whole && at->filled->items.left > 0;
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
DEVICE struct sequence sequence_behind(const struct weft__attention_device_args *args,
                                       const struct place *at)
{
    const int32_t next = at->seq.lengths.seq + 1;
    if (!at->filled)
        return sequence_of(args, next);
    const uint32_t *const all = at->filled->of_kind[at->whole];
    int32_t g = next / WARP;
    uint32_t rest = g < FILLED_GROUPS ? all[g] >> next % WARP << next % WARP : 0;
    while (!rest && ++g < FILLED_GROUPS)
        rest = all[g];
    const struct fill_known *const known = at->filled->known;
    const int32_t found = g * WARP + __ffs((int32_t)rest) - 1;
    struct sequence seq = sequence_from(args, known->of[found]);
    seq.pages = known->pages[found];
    return seq;
}

#endif
