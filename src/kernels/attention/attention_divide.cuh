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

DEVICE struct sequence sequence_of(const struct weft__attention_device_args *args, int32_t index)
{
    struct lengths lengths = {index, 0, 0, 0};
    const int32_t *pages = NULL;
    if (index < seqs_of(args)) {
        lengths.first_token = args->cu_q_lens[index];
        lengths.q_len = args->cu_q_lens[index + 1] - lengths.first_token;
        lengths.kv_len = args->kv_lens[index];
        pages = pages_of(args, index); // on the same trip to memory
    }
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

// How tiles count in equal shares. Of an item that is more than two shares, every share leaves a state that one block waits for and
// merges: its tiles count for more, so that its blocks have them read before others end, and so does its end.
struct measure {
    int32_t long_tiles; // items of so many and more tiles,
    int32_t
        ratio; // of which so many 1024ths are a tile's worth of a share; 0: all tiles count alike
};

DEVICE bool is_long(struct measure by, int32_t tiles)
{
    return !WEFT_WHOLE && by.ratio != 0 && tiles >= by.long_tiles;
}

// What so many tiles, one or more, of an item of `tiles` count for.
DEVICE int32_t tiles_cost(struct measure by, int32_t tiles)
{
    return is_long(by, tiles) ? (tiles - 1) * 1024 / by.ratio + 1 : tiles;
}

// The tiles of an item that begin before `cost` of it.
DEVICE int32_t tiles_before(struct measure by, int32_t tiles, int32_t cost)
{
    if (is_long(by, tiles))
        cost = (int32_t)(((uint32_t)cost * (uint32_t)by.ratio + 1023) / 1024);
    return min(cost, tiles);
}

// What an item counts for: its tiles and its end, or its chunks, of which the last ones may be empty.
DEVICE int32_t item_cost(const struct weft__attention_device_args *args, struct measure by,
                         int32_t tiles)
{
    if (WEFT_WHOLE)
        return 1;
    if (!in_chunks(args))
        return tiles_cost(by, tiles) + args->end_tiles +
               (is_long(by, tiles) ? args->part_tiles : 0);
    return args->splits ? args->splits : (tiles + args->chunk_tiles - 1) / args->chunk_tiles;
}

// --- places ---------------------------------------------------------------------------------------

// The block's file, and its number there.
DEVICE int32_t file_of_block(const struct weft__attention_device_args *args)
{
    return (int32_t)blockIdx.x % args->heads_abreast;
}

DEVICE int32_t number_of_block(const struct weft__attention_device_args *args)
{
    return (int32_t)blockIdx.x / args->heads_abreast;
}

// A place in the list of all tiles of a file.
struct place {
    struct sequence seq;
    int32_t kv_head, row_tile; // the item
    int32_t tile;              // of the item
    int32_t left;              // of the share from here on: tiles, and ends of items, as they count
    int32_t behind;            // what of the item lies before the block's part, as that counts
    struct measure by;
};

// Goes `tiles` further, the block's tiles of the item or none of it that has none left; then over its end.
DEVICE void place_advance(const struct weft__attention_device_args *args, struct place *at,
                          int32_t tiles)
{
    at->tile += tiles;
    at->left = at->tile < at->seq.tiles || in_chunks(args)
                   ? 0
                   : max(at->left + at->behind - item_cost(args, at->by, at->seq.tiles), 0);
    if (at->left == 0)
        return;
    at->tile = at->behind = 0;
    at->kv_head += args->heads_abreast;
    if (at->kv_head < args->num_kv_heads)
        return;
    at->kv_head -= args->num_kv_heads;
    if (++at->row_tile * args->heads_each < at->seq.items)
        return;
    at->row_tile = 0;
    do
        at->seq = sequence_of(args, at->seq.lengths.seq + 1);
    while (at->seq.items == 0);
}

// The tiles of the place's item that belong to the share.
DEVICE int32_t place_tiles(const struct place *at)
{
    return tiles_before(at->by, at->seq.tiles, at->behind + at->left) - at->tile;
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

DEVICE void scan_measure(const struct weft__attention_device_args *args, struct measure by,
                         struct scan *scan, int32_t lane)
{
    scan->cost = item_cost(args, by, scan->own.tiles) * scan->own.items;
    scan->sum = scan_sum(scan->cost, lane);
}

DEVICE struct scan scan_of(const struct weft__attention_device_args *args, int32_t i, int32_t lane)
{
    const struct measure alike = {0, 0};
    struct scan scan;
    scan.own = sequence_of(args, i * WARP + lane);
    scan_measure(args, alike, &scan, lane);
    return scan;
}

DEVICE int32_t scan_total(const struct scan *scan)
{
    return __shfl_sync(0xffffffffu, scan->sum, WARP - 1);
}

// Where the work `begin` of the list lies, if among the scan's; `before` is the work ahead of them. They have been measured by at->by.
DEVICE bool place_find(const struct weft__attention_device_args *args, struct place *at,
                       int32_t begin, const struct scan *scan, int32_t before)
{
    uint32_t behind = __ballot_sync(0xffffffffu, before + scan->sum > begin);
    if (!behind)
        return false;
    int32_t lane = __ffs((int32_t)behind) - 1;
    int32_t skipped = begin - before - __shfl_sync(0xffffffffu, scan->sum - scan->cost, lane);
    at->seq = sequence_shuffle(&scan->own, lane);
    const int32_t cost = item_cost(args, at->by, at->seq.tiles), item = skipped / cost;
    at->behind = skipped - item * cost;
    if (in_chunks(args))
        at->behind = min(at->behind * chunk_length(args, at->seq.tiles), at->seq.tiles);
    at->tile = tiles_before(at->by, at->seq.tiles, at->behind);
    at->row_tile = item / args->heads_each;
    at->kv_head =
        (item - at->row_tile * args->heads_each) * args->heads_abreast + file_of_block(args);
    return true;
}

// A share of the list: how much of it each is, where the block's ends.
struct share {
    int32_t each, end;
};

// How to measure a list whose shares are `each` where all tiles count alike. False: so they do.
DEVICE bool measure_of(const struct weft__attention_device_args *args, int32_t each,
                       int32_t longest, struct measure *by)
{
    enum { COUNTED = 1 << 20 }; // tiles, so that their 1024ths are numbers of 32 bits
    if (in_chunks(args) || args->part_tiles == 0 || each < 4 * args->part_tiles ||
        longest / 2 < each || longest >= COUNTED)
        return false;
    by->long_tiles = 2 * each, by->ratio = 1024 - 1024 * args->part_tiles / each;
    return true;
}

// The block's share of its file's list. left 0: nothing to do.
DEVICE struct place place_begin(const struct weft__attention_device_args *args, int32_t lane,
                                struct share *share)
{
    enum { SUM, SUM_AGAIN, FIND };
    const int32_t groups = max((args->num_seqs + WARP - 1) / WARP, 1);
    const int32_t blocks = (int32_t)gridDim.x / args->heads_abreast;
    int32_t pass = SUM, total = 0, longest = 0, before = 0, begin = 0;
    struct scan scan;
    struct place at;
    at.by.long_tiles = at.by.ratio = 0;
    // All groups of sequences for the sum of their work, again where some count for more, then from the first on until the
    // share is found; where there is but one group it is known.
#pragma unroll 1
    for (int32_t i = 0;;) {
        if (groups > 1 || pass == SUM)
            scan.own = sequence_of(args, i * WARP + lane);
        scan_measure(args, at.by, &scan, lane);
        if (pass == FIND) {
            if (place_find(args, &at, begin, &scan, before))
                break;
            before += scan_total(&scan), i++;
            continue;
        }
        total += scan_total(&scan);
        longest =
            max(longest,
                (int32_t)warp_max_bits((uint32_t)(scan.own.items > 0 ? scan.own.tiles : 0), WARP));
        if (++i < groups)
            continue;
        i = 0;
        share->each = in_chunks(args) ? 1 : max((total + blocks - 1) / blocks, args->min_share);
        if (pass == SUM && measure_of(args, share->each, longest, &at.by)) {
            pass = SUM_AGAIN, total = 0;
            continue;
        }
        pass = FIND;
        begin = number_of_block(args) * share->each;
        at.left = begin >= total ? 0 : min(total - begin, share->each);
        share->end = begin + at.left;
        if (at.left == 0)
            return at;
    }
    if (in_chunks(args))
        at.left = min(chunk_length(args, at.seq.tiles), at.seq.tiles - at.tile);
    if (at.tile == at.seq.tiles && at.left > 0) // within an end
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
        const int32_t item = share.end - at->left - at->behind; // where it begins in the list
        by.first = item / share.each;
        by.last = (item + tiles_cost(at->by, tiles) - 1) / share.each;
    }
    return by;
}

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
    struct place at = {sequence_from(args, lengths), kv_head, 0, 0, 0, 0, {0, 0}};
    at.seq.pages = pages;
    const struct division by = division_of(at.seq.tiles, parts, merging, args->merge_tiles, least);
    at.tile = min(part_begin(by, number), at.seq.tiles);
    at.left = min(part_begin(by, number + 1), at.seq.tiles) - at.tile;
    at.behind = at.tile;
    return at;
}

#endif
