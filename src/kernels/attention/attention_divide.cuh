// SPDX-License-Identifier: MIT
// The division of a run (attention_device.h): which tiles of which items a block takes. Every warp
// finds it by itself from the lengths, with one round trip to memory for up to 32 sequences.
//
// The kernel defines KEYS, the keys of a tile, and ROWS, the rows of queries of an item. Sequences
// whose rows are not between args->least_rows and args->most_rows are another launch's.
#ifndef WEFT_KERNELS_ATTENTION_DIVIDE_CUH
#define WEFT_KERNELS_ATTENTION_DIVIDE_CUH

#ifndef WEFT_WHOLE
#define WEFT_WHOLE 0 // 1: in_chunks() is known when the kernel is compiled
#endif
#ifndef WEFT_ABREAST
#define WEFT_ABREAST 0 // KV heads whose tokens a block reads whole
#endif
#ifndef FILLS
#define FILLS 0 // 1: shares may be filled up (attention_filled.cuh)
#endif
#include "src/kernels/attention/attention_device.h"
#include "src/kernels/attention/attention_mask.cuh"
#include "src/kernels/cuda/warp.cuh"

// The tiles of a sequence: which keys they hold, how many items and tiles there are.
struct sequence {
    struct lengths lengths;
    int32_t first_key, end_key; // what its queries see between them
    int32_t begin;              // of the first tile
    int32_t tiles;              // of each item
    int32_t items;              // of a file: KV heads x tiles of rows
    const int32_t *pages;
};

DEVICE struct sequence sequence_from(const struct weft__attention_device_args *args,
                                     struct lengths lengths)
{
    struct sequence s = {lengths, 0, 0, 0, 0, 0, NULL};
    if (lengths.q_len <= 0)
        return s;
    s.first_key = min(first_key_of(args, lengths, 0), lengths.kv_len);
    s.end_key = keys_of(args, lengths, lengths.q_len - 1).end;
    s.begin = s.first_key / KEYS * KEYS;
    s.tiles = s.end_key > s.begin ? (s.end_key - s.begin + KEYS - 1) / KEYS : 1;
    const int32_t rows = lengths.q_len * args->group_size;
    if (rows >= args->least_rows && rows <= args->most_rows)
        s.items = (rows + ROWS - 1) / ROWS * args->heads_each;
    return s;
}

// Sequences of the run now; those behind have nothing to do, and nothing of them is read.
DEVICE int32_t seqs_of(const struct weft__attention_device_args *args)
{
    return args->num_seqs_at ? min(*args->num_seqs_at, args->num_seqs) : args->num_seqs;
}

// Lengths of sequence `index`, and its pages on the same trip to memory.
DEVICE struct lengths lengths_of(const struct weft__attention_device_args *args, int32_t index,
                                 const int32_t **pages)
{
    struct lengths lengths = {index, 0, 0, 0};
    *pages = NULL;
    if (index < seqs_of(args)) {
        lengths.first_token = args->cu_q_lens[index];
        lengths.q_len = args->cu_q_lens[index + 1] - lengths.first_token;
        lengths.kv_len = args->kv_lens[index];
        *pages = pages_of(args, index);
    }
    return lengths;
}

DEVICE struct sequence sequence_of(const struct weft__attention_device_args *args, int32_t index)
{
    const int32_t *pages;
    const struct lengths lengths = lengths_of(args, index, &pages);
    struct sequence s = sequence_from(args, lengths);
    s.pages = pages;
    return s;
}

// Lane `lane`'s.
DEVICE struct sequence sequence_shuffle(const struct sequence *own, int32_t lane)
{
    struct sequence s;
    s.lengths.seq = __shfl_sync(0xffffffffu, own->lengths.seq, lane);
    s.lengths.q_len = __shfl_sync(0xffffffffu, own->lengths.q_len, lane);
    s.lengths.kv_len = __shfl_sync(0xffffffffu, own->lengths.kv_len, lane);
    s.lengths.first_token = __shfl_sync(0xffffffffu, own->lengths.first_token, lane);
    s.first_key = __shfl_sync(0xffffffffu, own->first_key, lane);
    s.end_key = __shfl_sync(0xffffffffu, own->end_key, lane);
    s.begin = __shfl_sync(0xffffffffu, own->begin, lane);
    s.tiles = __shfl_sync(0xffffffffu, own->tiles, lane);
    s.items = __shfl_sync(0xffffffffu, own->items, lane);
    s.pages = (const int32_t *)__shfl_sync(0xffffffffu, (unsigned long long)own->pages, lane);
    return s;
}

// Does every block take a chunk of an item, instead of a share of all tiles? Prefill always does (WEFT_WHOLE: items are whole).
DEVICE bool in_chunks(const struct weft__attention_device_args *args)
{
    return WEFT_WHOLE || (args->splits | args->chunk_tiles) != 0;
}

// The tiles of a chunk of an item of `tiles` tiles.
DEVICE int32_t chunk_length(const struct weft__attention_device_args *args, int32_t tiles)
{
    return args->splits ? max((tiles + args->splits - 1) / args->splits, args->min_share)
                        : args->chunk_tiles;
}

// What an item counts for: its tiles and its end, or its chunks, of which the last ones may be empty.
DEVICE int32_t item_cost(const struct weft__attention_device_args *args, int32_t tiles)
{
    if (WEFT_WHOLE)
        return 1;
    if (!in_chunks(args))
        return tiles + args->end_tiles;
    return args->splits ? args->splits : (tiles + args->chunk_tiles - 1) / args->chunk_tiles;
}

// --- places ---------------------------------------------------------------------------------------

// Files that blocks stand in.
DEVICE int32_t files_of(const struct weft__attention_device_args *args)
{
    return WEFT_ABREAST ? 1 : args->heads_abreast;
}

// The block's file, and its number there.
DEVICE int32_t file_of_block(const struct weft__attention_device_args *args)
{
    return (int32_t)blockIdx.x % files_of(args);
}

DEVICE int32_t number_of_block(const struct weft__attention_device_args *args)
{
    return (int32_t)blockIdx.x / files_of(args);
}

// A place in the list of all tiles of a file.
struct place {
    struct sequence seq;
    int32_t kv_head, row_tile; // the item
    int32_t tile;              // of the item
    int32_t left;              // of the share from here on: tiles, and ends of items
#if FILLS
    const struct filled *filled; // of the share, or NULL
    bool whole;                  // among the items that it has whole
#endif
};

#if FILLS
DEVICE bool place_goes_on(struct place *at);
DEVICE struct sequence sequence_behind(const struct weft__attention_device_args *args,
                                       const struct place *at);
DEVICE int32_t end_of(const struct weft__attention_device_args *args, const struct place *at);
DEVICE bool place_has_more(const struct place *at);
#else
DEVICE int32_t end_of(const struct weft__attention_device_args *args, const struct place *)
{
    return args->end_tiles;
}
DEVICE bool place_goes_on(struct place *)
{
    return false;
}
DEVICE bool place_has_more(const struct place *)
{
    return false;
}
DEVICE struct sequence sequence_behind(const struct weft__attention_device_args *args,
                                       const struct place *at)
{
    return sequence_of(args, at->seq.lengths.seq + 1);
}
#endif

// Goes `tiles` further; 0 <= tiles <= left, at most to the end of the item, and over that.
DEVICE void place_advance(const struct weft__attention_device_args *args, struct place *at,
                          int32_t tiles)
{
    at->tile += tiles, at->left -= tiles;
    const bool ends = at->tile >= at->seq.tiles;
    if (ends)
        at->left = max(at->left - end_of(args, at), 0);
    if (at->left == 0 && place_goes_on(at))
        return;
    if (!ends || at->left == 0)
        return;
    at->tile = 0;
    at->kv_head += args->heads_abreast;
    if (at->kv_head < args->num_kv_heads)
        return;
    at->kv_head -= args->num_kv_heads;
    if (++at->row_tile * args->heads_each < at->seq.items)
        return;
    at->row_tile = 0;
    do
        at->seq = sequence_behind(args, at);
    while (at->seq.items == 0);
}

// Is the share over when the place has gone `tiles` further?
DEVICE bool share_ends(const struct weft__attention_device_args *args, const struct place *at,
                       int32_t tiles)
{
    const int32_t end = at->tile + tiles >= at->seq.tiles ? end_of(args, at) : 0;
    return at->left <= tiles + end && !place_has_more(at);
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

// The sequences 32 i to 32 i + 31, one a lane, and the sum of their work up to the lane's.
struct scan {
    struct sequence own;
    int32_t cost, sum;
};

DEVICE struct scan scan_of(const struct weft__attention_device_args *args, int32_t i, int32_t lane)
{
    struct scan scan;
    scan.own = sequence_of(args, i * WARP + lane);
    scan.cost = item_cost(args, scan.own.tiles) * scan.own.items;
    scan.sum = scan_sum(scan.cost, lane);
    return scan;
}

DEVICE int32_t scan_total(const struct scan *scan)
{
    return __shfl_sync(0xffffffffu, scan->sum, WARP - 1);
}

// The same where every item counts for one.
DEVICE void scan_whole(struct scan *scan, int32_t lane)
{
    scan->cost = scan->own.items;
    scan->sum = scan_sum(scan->cost, lane);
}

// Where the work `begin` of the list lies, if among the scan's; `before` is the work ahead of them.
DEVICE bool place_find(const struct weft__attention_device_args *args, struct place *at,
                       int32_t begin, const struct scan *scan, int32_t before, bool whole = false)
{
    uint32_t behind = __ballot_sync(0xffffffffu, before + scan->sum > begin);
    if (!behind)
        return false;
    int32_t lane = __ffs((int32_t)behind) - 1;
    int32_t skipped = begin - before - __shfl_sync(0xffffffffu, scan->sum - scan->cost, lane);
    at->seq = sequence_shuffle(&scan->own, lane);
    const int32_t cost = whole ? 1 : item_cost(args, at->seq.tiles), item = skipped / cost;
    at->tile = skipped - item * cost;
    if (in_chunks(args))
        at->tile = min(at->tile * chunk_length(args, at->seq.tiles), at->seq.tiles);
    at->row_tile = item / args->heads_each;
    at->kv_head =
        (item - at->row_tile * args->heads_each) * args->heads_abreast + file_of_block(args);
    return true;
}

// Items of up to so many keys are whole where that makes blocks little less equal: what shares cost is an end of an item more for each block, and a
// merge; NOTES.md.
enum { WHOLE_KEYS = 2048 };

// A share of the list: how much of it each is, where the block's ends.
struct share {
    int32_t each, end;
};

// The block's share of its file's list. left 0: nothing to do.
DEVICE struct place place_begin(const struct weft__attention_device_args *args, int32_t lane,
                                struct share *share)
{
    const int32_t groups = max((args->num_seqs + WARP - 1) / WARP, 1);
    const int32_t blocks = (int32_t)gridDim.x / files_of(args);
    int32_t total = 0, items = 0, longest = 0, before = 0, begin = 0;
    bool whole = false;
    struct scan scan;
    struct place at;
#if FILLS
    at.filled = NULL;
#endif
    // All groups of sequences for the sum of their work, then from the first on again; where there is but one it is known.
#pragma unroll 1
    for (int32_t i = 0;; i++) {
        const bool sums = i < groups;
        if (sums || groups > 1)
            scan = scan_of(args, sums ? i : i - groups, lane);
        if (!sums && whole)
            scan_whole(&scan, lane);
        if (sums) {
            total += scan_total(&scan);
            items += warp_total(scan.own.items);
            longest = max(longest,
                          (int32_t)warp_most((uint32_t)(scan.own.items > 0 ? scan.own.tiles : 0)));
            if (i + 1 < groups)
                continue;
            share->each = in_chunks(args) ? 1 : max((total + blocks - 1) / blocks, args->min_share);
            if (!in_chunks(args) && longest * KEYS <= WHOLE_KEYS) {
                const int32_t cost = longest + args->end_tiles,
                              most = (items + blocks - 1) / blocks;
                whole = items <= blocks && 2 * cost <= 3 * share->each;
                if (!whole && cost * items == total && 8 * most * cost <= 9 * share->each)
                    share->each = most * cost; // all items are alike: shares end where items do
            }
            if (whole) {
                scan_whole(&scan, lane);
                total = items, share->each = 1;
            }
            begin = number_of_block(args) * share->each;
            at.left = begin >= total ? 0 : min(total - begin, share->each);
            share->end = begin + at.left;
            if (at.left == 0)
                return at;
            if (groups > 1)
                continue;
        }
        if (place_find(args, &at, begin, &scan, before, whole))
            break;
        before += scan_total(&scan);
    }
    if (in_chunks(args)) {
        at.left = min(chunk_length(args, at.seq.tiles), at.seq.tiles - at.tile);
    } else if (whole) {
        at.left = at.seq.tiles;
    } else if (at.tile > at.seq.tiles) { // within an end: back to where it begins, and over it
        at.left += at.tile - at.seq.tiles, at.tile = at.seq.tiles;
    }
    if (at.tile == at.seq.tiles && at.left > 0)
        place_advance(args, &at, 0);
    return at;
}

// The blocks that have tiles of an item: numbers of its file.
struct holders {
    int32_t first, last;
};

// Of the item of a block's place.
DEVICE struct holders holders_of(const struct weft__attention_device_args *args,
                                 const struct place *at, struct share share)
{
    const int32_t tiles = at->seq.tiles;
    struct holders by;
    if (in_chunks(args)) {
        const int32_t length = chunk_length(args, tiles);
        by.first = number_of_block(args) - at->tile / length;
        by.last = by.first + (tiles - 1) / length;
    } else {
        const int32_t item = share.end - at->left - at->tile; // where it begins in the list
        by.first = item / share.each, by.last = (item + tiles - 1) / share.each;
    }
    return by;
}

#if FILLS
// The block of the file in which the place's item begins.
DEVICE int32_t first_holder(const struct weft__attention_device_args *args, const struct place *at,
                            struct share share);
#else
DEVICE int32_t first_holder(const struct weft__attention_device_args *args, const struct place *at,
                            struct share share)
{
    return holders_of(args, at, share).first;
}
#endif

// The slot that block `number` of the file leaves a state of the item in.
DEVICE int32_t slot_of(const struct weft__attention_device_args *args, struct holders by,
                       int32_t number)
{
    const int32_t slot = in_chunks(args) ? number : 2 * number + (number == by.first);
    return slot * args->heads_abreast + file_of_block(args);
}

// The counter of an item: that of the block in which it begins, where no other begins and goes on.
DEVICE uint32_t *counter_of(const struct weft__attention_device_args *args, struct holders by)
{
    return args->counters + by.first * args->heads_abreast + file_of_block(args);
}

// --- parts ----------------------------------------------------------------------------------------

// How an item's tiles are divided: `early` parts of `length` tiles, then those of the blocks that merge.
struct division {
    int32_t early, length;
    int32_t merging_length;
};

// In `parts` parts, of at least `least` tiles. The last `merging` of them are `merge_tiles` shorter, or nothing, so that their blocks have
// read their own keys when the states of the others arrive.
DEVICE struct division division_of(int32_t tiles, int32_t parts, int32_t merging,
                                   int32_t merge_tiles, int32_t least)
{
    const int32_t early = parts - merging;
    const int32_t all = (tiles + merging * merge_tiles + parts - 1) / parts;
    const int32_t alone = (tiles + early - 1) / early; // less where those that merge have nothing
    const int32_t length = max(min(all, alone), least);
    struct division by = {early, length, max(length - merge_tiles, 0)};
    return by;
}

// Where part `number` begins, be there tiles or not.
DEVICE int32_t part_begin(struct division by, int32_t number)
{
    return min(number, by.early) * by.length + max(number - by.early, 0) * by.merging_length;
}

// The parts that have tiles: the first so many.
DEVICE int32_t parts_used(struct division by, int32_t tiles)
{
    const int32_t late = tiles - by.early * by.length;
    return late > 0 ? by.early + (late + by.merging_length - 1) / by.merging_length
                    : (tiles + by.length - 1) / by.length;
}

// Part `number` of the first rows of sequence blockIdx.y: its first tile, and how many `left` counts.
DEVICE struct place place_of_part(const struct weft__attention_device_args *args, int32_t kv_head,
                                  int32_t number, int32_t parts, int32_t merging, int32_t least)
{
    struct lengths lengths = {(int32_t)blockIdx.y, 0, 0, 0};
    const int32_t *pages = NULL;
    if (!args->num_seqs_at || lengths.seq < __ldcg(args->num_seqs_at)) {
        lengths.first_token = __ldcg(args->cu_q_lens + lengths.seq);
        lengths.q_len = __ldcg(args->cu_q_lens + lengths.seq + 1) - lengths.first_token;
        lengths.kv_len = __ldcg(args->kv_lens + lengths.seq);
        pages = pages_of(args, lengths.seq); // on the same trip to memory
    }
    struct place at = {sequence_from(args, lengths), kv_head, 0, 0, 0};
    at.seq.pages = pages;
    const struct division by = division_of(at.seq.tiles, parts, merging, args->merge_tiles, least);
    at.tile = min(part_begin(by, number), at.seq.tiles);
    at.left = min(part_begin(by, number + 1), at.seq.tiles) - at.tile;
    return at;
}

#endif
