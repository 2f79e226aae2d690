// SPDX-License-Identifier: MIT
// Prefill by warpgroups: the barriers of its rings, and the warps that find items and keep the rings filled.
//
// attention_prefill_wgmma.cu defines the sizes and shared_base().
#ifndef WEFT_KERNELS_ATTENTION_PREFILL_LOAD_CUH
#define WEFT_KERNELS_ATTENTION_PREFILL_LOAD_CUH

#include "src/kernels/attention/attention_longest.cuh"
#include "src/kernels/attention/attention_row_lanes.cuh"
#include "src/kernels/attention/attention_slices.cuh"
#include "src/kernels/cuda/bulk.cuh"

// --- barriers and stages --------------------------------------------------------------------------

// Every thread of the warps arrives: what it has copied, or read by itself, it hands over itself.
struct barriers {
    uint64_t queries_full[WEFT_QUERIES], queries_empty[WEFT_QUERIES];
    uint64_t tile_full[2 * WEFT_STAGES], tile_empty[2 * WEFT_STAGES]; // keys, then values
};

// The warp of those that load that finds items: not the one that asks for boxes.
enum { FINDER = LOADERS - 1 };

// Items that are known: one is found while the queries of the one before it are loaded, of WEFT_QUERIES before that some warps
// multiply, and others leave results of one more.
enum { ITEMS = WEFT_QUERIES + 2 };

// What the block's threads share beside the tiles.
struct shared {
    struct barriers barriers;
    struct item items[ITEMS];
    int32_t slices; // of an item
    float unit;     // of scores (unit_of())
};

// Where the queries of a round lie, and the parity of the phase in which they are there.
DEVICE int32_t queries_place(int32_t round)
{
    return (int32_t)((uint32_t)round % WEFT_QUERIES);
}

DEVICE uint32_t queries_parity(int32_t round)
{
    return (uint32_t)round / WEFT_QUERIES % 2;
}

// A stage of a ring, and the parity of the phase that it is waited for in.
struct stage {
    int32_t index;
    uint32_t parity;
};

DEVICE void stage_next(struct stage *at)
{
    if (++at->index == WEFT_STAGES)
        at->index = 0, at->parity ^= 1;
}

DEVICE uint32_t barrier_of(const uint64_t *first, int32_t index)
{
    return shared_address(first) + 8 * index;
}

DEVICE void barriers_begin(struct barriers *b)
{
    for (int32_t i = 0; i < WEFT_QUERIES; i++) {
        barrier_init(barrier_of(b->queries_full, i), LOADERS * WARP);
        barrier_init(barrier_of(b->queries_empty, i), WARPS * WARP);
    }
    for (int32_t i = 0; i < 2 * WEFT_STAGES; i++) {
        barrier_init(barrier_of(b->tile_full, i), LOADERS * WARP);
        barrier_init(barrier_of(b->tile_empty, i), WARPS * WARP);
    }
    barrier_init_end();
}

// --- the warps that load --------------------------------------------------------------------------

// What a warp that loads knows. Copies that have been asked for last are still to be announced: at `pending`.
struct loader {
    struct shared *shared;
    int32_t warp, lane;
    uint32_t pending; // 0: none
    struct stage keys, values;
};

// A lane's row of those that its warp asks for, of `count` rows: below count for lanes below count / LOADERS.
DEVICE int32_t lane_row(const struct loader *own)
{
    return row_found(own->lane, CHUNKS, own->warp, LOADERS);
}

// What has been asked for is there, and whoever waits may read it.
DEVICE void loader_announce(struct loader *own)
{
    bulk_fence();
    barrier_arrive(own->pending);
    own->pending = 0;
}

DEVICE void loader_finish(struct loader *own)
{
    COPY_WAIT(0);
    if (own->pending)
        loader_announce(own);
}

// The copies since the last call belong to what `barrier` guards; those before them are announced.
DEVICE void loader_asked(struct loader *own, uint32_t barrier)
{
    copy_group_end();
    COPY_WAIT(1);
    if (own->pending)
        loader_announce(own);
    own->pending = barrier;
}

// Until nobody reads a stage any more. Nobody waits for what is not announced meanwhile.
DEVICE void loader_wait(struct loader *own, uint32_t barrier, uint32_t parity)
{
    if (__all_sync(0xffffffffu, barrier_ended(barrier, parity)))
        return;
    loader_finish(own);
    barrier_wait(barrier, parity);
}

// A lane's sixteen bytes of every row that its warp asks for. seen: the lanes whose rows are, the others are zeros; ALL: all.
template <int COUNT, bool ALL>
DEVICE void rows_copy(const struct loader *own, uint32_t to, const uint8_t *row, uint32_t seen)
{
    const uint32_t lane = (uint32_t)own->lane, chunk = lane % CHUNKS;
    const uint32_t first = (uint32_t)own->warp * TOGETHER + lane / CHUNKS;
    to += chunk / 8 * COUNT * 128 + first * 128 + (chunk ^ first) % 8 * 16;
#pragma unroll(4)
    for (uint32_t i = 0; i < COUNT / STEP; i++) {
        const uint32_t from = row_finder(i, lane, CHUNKS);
        const uint8_t *found =
            (const uint8_t *)__shfl_sync(0xffffffffu, (unsigned long long)row, (int32_t)from) +
            chunk * 16;
        // rows that are four further have the other half of eight places
        const uint32_t place = (STEP % 8 && i % 2 ? to ^ 64 : to) + i * STEP * 128;
        if (ALL)
            copy_16_async(place, found);
        else
            copy_16_async_or_zero(place, found, seen >> from & 1 ? 16 : 0);
    }
}

// Asks for COUNT rows; `row`: where the row lane_row() begins that a lane knows, zeros if it is not seen.
template <int COUNT>
DEVICE void rows_ask(const struct loader *own, uint32_t to, const uint8_t *row, bool seen)
{
    const uint32_t all = __ballot_sync(0xffffffffu, seen || own->lane >= COUNT / LOADERS);
    if (all == 0xffffffffu)
        rows_copy<COUNT, true>(own, to, row, all);
    else
        rows_copy<COUNT, false>(own, to, row, all);
}

// The queries of an item to their place; rows that do not exist are zeros.
DEVICE void queries_ask(const struct weft__attention_device_args *args, const struct loader *own,
                        const struct item *item, int32_t place)
{
    const struct rows rows = item->rows;
    const int32_t row = lane_row(own);
#pragma unroll 1
    for (int32_t group = 0; group < GROUPS; group++) {
        const bool exists = row < 64 && 64 * group + row < rows.count;
        const struct row at = row_at(args, rows, exists ? 64 * group + row : 0);
        rows_ask<64>(own, shared_base() + place * QUERY_BYTES + group * 64 * HEAD * 2,
                     (const uint8_t *)args->q + BYTES * query_at(args, item->seq.lengths, at),
                     exists);
    }
}

// The page of the lane's row of a tile.
DEVICE int32_t page_of(const struct loader *own, const struct item *item, int32_t key0)
{
    const int32_t key = key0 + lane_row(own);
    return item_sees(item, key) && own->lane < KEYS / LOADERS ? item->pages[key / PAGE] : 0;
}

// Asks for the keys or the values of a tile.
DEVICE void tile_ask(const struct loader *own, const struct item *item,
                     const struct weft__attention_device_plane *plane, int32_t page, int32_t key0,
                     uint32_t to)
{
    const int32_t key = key0 + lane_row(own);
    const bool seen = item_sees(item, key) && own->lane < KEYS / LOADERS;
    const uint8_t *row = (const uint8_t *)plane->data;
    if (seen)
        row += BYTES * (page * plane->page_stride + key % PAGE * plane->token_stride);
    rows_ask<KEYS>(own, to, row, seen);
}

// --- tiles in boxes -------------------------------------------------------------------------------

// A tile of which all keys are seen comes in boxes of BOX_ROWS rows and 64 columns, if the cache lies as maps can say, the halves of a row side
// by side. What cp.async takes 500 instructions of every scheduler for is 20 then. Lane b of one warp asks for box b; where there are many, for
// a warp asks for one after the other, lane b of warp w for box w + b BOX_WARPS.
enum {
    BOX_ROWS = WEFT_BOX_ROWS, // 0: there are none
    ACROSS = HEAD / 64,
    BOXES = BOX_ROWS ? KEYS / (BOX_ROWS ? BOX_ROWS : 1) * ACROSS : 0,
    BOX_WARPS = BOXES > 4 ? FINDER : 1,
};
static_assert(BOXES <= WARP, "a box a lane");

// The lane's box of a tile, and how many its warp asks for, where there are many.
DEVICE int32_t box_of_many(const struct loader *own)
{
    return own->warp + own->lane * BOX_WARPS;
}

DEVICE int32_t boxes_of_many(const struct loader *own)
{
    return own->warp < BOX_WARPS ? (BOXES - own->warp + BOX_WARPS - 1) / BOX_WARPS : 0;
}

// The first row of the lane's box.
DEVICE int32_t box_row(const struct loader *own)
{
    return (BOX_WARPS > 1 ? box_of_many(own) : own->lane) / ACROSS * BOX_ROWS;
}

DEVICE bool in_boxes(const struct weft__attention_device_args *args, const struct item *item,
                     int32_t key0)
{
    return BOXES > 0 && args->boxed && key0 >= item->first_key && key0 + KEYS <= item->end_key;
}

// The page of the lane's box of a tile.
DEVICE int32_t box_page_of(const struct weft__attention_device_args *args, const struct loader *own,
                           const struct item *item, int32_t key0)
{
    const int32_t key = key0 + box_row(own);
    if (BOX_WARPS > 1)
        return in_boxes(args, item, key0) && own->lane < boxes_of_many(own)
                   ? item->pages[key / PAGE]
                   : 0;
    return in_boxes(args, item, key0) && own->warp == 0 && own->lane < BOXES
               ? item->pages[key / PAGE]
               : 0;
}

// Asks for the keys or the values of a tile. The warps that load arrive at the barrier as if they had copied.
DEVICE void boxes_ask(const struct weft__attention_device_args *args, const struct loader *own,
                      int32_t kv_head, const unsigned char *map, int32_t page, int32_t key0,
                      uint32_t to, uint32_t barrier)
{
    // no branch: with one, heads of 256 spill
    barrier_expect(barrier, own->lane == 0 && own->warp == 0 ? TILE_BYTES : 0);
    __syncwarp();
    if (own->warp > 0 || own->lane >= BOXES)
        return;
    const int32_t half = own->lane % ACROSS, row = box_row(own);
    copy_box_of_pile(to + half * KEYS * 128 + row * 128, map, half * 64, (key0 + row) % PAGE,
                     kv_head, page, barrier);
}

DEVICE void many_boxes_ask(const struct loader *own, int32_t kv_head, const unsigned char *map,
                           int32_t page, int32_t key0, uint32_t to, uint32_t barrier)
{
    const int32_t count = boxes_of_many(own);
    barrier_expect(barrier, own->lane == 0 ? (uint32_t)(count * BOX_ROWS * 128) : 0);
    __syncwarp();
    if (own->lane >= count)
        return;
    const int32_t half = box_of_many(own) % ACROSS, row = box_row(own);
    copy_box_of_pile(to + half * KEYS * 128 + row * 128, map, half * 64, (key0 + row) % PAGE,
                     kv_head, page, barrier);
}

// --- items ----------------------------------------------------------------------------------------

// The block's item of round `round`: there and back through the blocks, so that none has the longest of every round.
DEVICE int32_t item_index(int32_t round)
{
    const int32_t block = (int32_t)blockIdx.x, blocks = (int32_t)gridDim.x;
    return round * blocks + (round % 2 ? blocks - 1 - block : block);
}

// Finds the item of a round and leaves it where all warps find it: by one warp. rows.count 0: there is none.
DEVICE void item_find(const struct weft__attention_device_args *args, int32_t lane, int32_t round,
                      struct item *item)
{
    const struct unit unit = {item_index(round), 0, 1};
    struct place at;
    if (item_place_next(args, unit.item, lane, &at))
        item_set(args, &at, unit, lane, item);
    else if (lane == 0)
        item->rows.count = 0;
}

// The item of the next round; what has been asked for until then is announced first.
DEVICE void item_next(const struct weft__attention_device_args *args, struct loader *own,
                      int32_t round)
{
    if (own->warp != FINDER)
        return;
    loader_finish(own);
    struct item *item = &own->shared->items[round % ITEMS];
    if (own->shared->slices > 1) // as many as there are blocks at most
        item->rows.count = 0;
    else
        item_find(args, own->lane, round, item);
}

// The keys and values of an item, a tile at least, in the order in which they are wanted, values a tile behind keys: K0 K1 V0 K2 V1 ... V.
// Once there is enough to multiply, one warp looks for the item of the next round.
DEVICE void item_load(const struct weft__attention_device_args *args, struct loader *own,
                      const struct item *item, int32_t round)
{
    struct barriers *b = &own->shared->barriers;
    const int32_t begin = item->begin, rest = item->end_key - begin;
    const int32_t last = 2 * max((rest + KEYS - 1) / KEYS, 1) - 1;
    int32_t page = page_of(own, item, begin), before = page, next = page;
    int32_t box = box_page_of(args, own, item, begin), box_before = box, box_next = box;
#pragma unroll 1
    for (int32_t i = 0; i <= last; i++) {
        const bool is_keys = i == 0 || (i % 2 && i < last);
        const int32_t tile = is_keys ? (i + 1) / 2 : i == last ? i / 2 : i / 2 - 1;
        const struct stage at = is_keys ? own->keys : own->values;
        const int32_t ring = is_keys ? 0 : WEFT_STAGES;
        const struct weft__attention_device_plane *plane = &item->planes[!is_keys];
        if (is_keys) {
            before = page, page = next;
            next = page_of(own, item, begin + (tile + 1) * KEYS);
            box_before = box, box = box_next;
            box_next = box_page_of(args, own, item, begin + (tile + 1) * KEYS);
        }
        const int32_t key0 = begin + tile * KEYS;
        const uint32_t to = shared_base() + TILES_AT + (ring + at.index) * TILE_BYTES;
        const bool present = is_keys || i == last;
        loader_wait(own, barrier_of(b->tile_empty, ring + at.index), at.parity);
        if (in_boxes(args, item, key0)) {
            const unsigned char *map = is_keys ? args->k_map : args->v_map;
            const uint32_t barrier = barrier_of(b->tile_full, ring + at.index);
            if (BOX_WARPS > 1)
                many_boxes_ask(own, item->rows.kv_head, map, present ? box : box_before, key0, to,
                               barrier);
            else
                boxes_ask(args, own, item->rows.kv_head, map, present ? box : box_before, key0, to,
                          barrier);
        } else {
            tile_ask(own, item, plane, present ? page : before, key0, to);
            loader_asked(own, barrier_of(b->tile_full, ring + at.index));
        }
        if (is_keys)
            stage_next(&own->keys);
        else
            stage_next(&own->values);
        if (HEAD <= 128 && i == min(last, 2))
            item_next(args, own, round + 1);
    }
    if (HEAD > 128) // registers
        item_next(args, own, round + 1);
}

// The block's first item, or slice of one: by a warp.
DEVICE void item_first(const struct weft__attention_device_args *args, struct shared *shared,
                       int32_t lane)
{
    struct unit unit = {0, 0, 1};
    struct item *item = &shared->items[0];
    struct place at;
    if (!SLICES) {
        struct kept *kept = shared_kept();
        if (lane == 0)
            kept->number = -1, kept->before = kept->total = 0;
        __syncwarp();
        item_find(args, lane, 0, item);
    } else if (unit_at(args, lane, (int32_t)blockIdx.x, &unit, &at))
        item_set(args, &at, unit, lane, item);
    else if (lane == 0)
        item->rows.count = 0;
    if (lane == 0)
        shared->slices = unit.slices;
}

DEVICE void load(const struct weft__attention_device_args *args, struct shared *shared)
{
    struct loader own = {
        shared, (int32_t)threadIdx.x / WARP - WARPS, (int32_t)threadIdx.x % WARP, 0, {0, 1},
        {0, 1}};
    struct barriers *b = &shared->barriers;
#pragma unroll 1
    for (int32_t round = 0;; round++) {
        const struct item *item = &shared->items[round % ITEMS];
        loader_wait(&own, barrier_of(b->queries_empty, queries_place(round)),
                    queries_parity(round) ^ 1);
        part_sync<LOADERS * WARP>(LOADED);
        const bool more = item->rows.count > 0;
        if (more)
            queries_ask(args, &own, item, queries_place(round));
        loader_asked(&own, barrier_of(b->queries_full, queries_place(round)));
        if (!more)
            break;
        item_load(args, &own, item, round);
    }
    loader_finish(&own);
}

#endif
