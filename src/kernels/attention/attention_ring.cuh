// SPDX-License-Identifier: MIT
// The ring of a decode warp: tiles of keys and values on their way to shared memory while earlier ones are
// worked at. It runs ahead of the work, over the ends of items.
//
// Sixteen keys are asked for at a time. What is known when the kernel is compiled, that they share a page, and what holds
// for all but the ends of a sequence, that all of them are seen, leaves an addition and a copy for every 16 bytes. With
// smaller pages a lane computes where one key (lanes 0..15) or value (16..31) lies, the others get it by shuffle.
//
// Where the copy engine serves, a barrier a slot counts what has arrived: WEFT_BOXES 1: boxes (attention_boxes.cuh), 2: of pages of no
// whole sixteens long rows, a copy each, which the lane asks for that knows the row's page.
#ifndef WEFT_KERNELS_ATTENTION_RING_CUH
#define WEFT_KERNELS_ATTENTION_RING_CUH

#include "src/kernels/attention/attention_boxes.cuh"
#include "src/kernels/attention/attention_codes.cuh"
#include "src/kernels/attention/attention_fresh.cuh"
#include "src/kernels/attention/attention_widen.cuh"

enum {
    ONE_PAGE = PAGE % 16 == 0 && !WEFT_RING, // sixteen keys lie one behind the other
    IN_STEPS = ONE_PAGE && CHUNKS > 1 && WARP % CHUNKS == 0 &&
               (WEFT_PARTS == 1 || DIM <= 128), // registers
    STEP_ROWS = IN_STEPS ? WARP / CHUNKS : 1,   // that a warp copies at once
};

static_assert(KEYS == 16, "a lane has one key of a tile");

struct ring {
    struct place *at; // the item that is asked for, in shared memory; left counts the block's tiles
    int32_t tile;     // the warp's next tile of it
    int32_t last;     // end of the block's tiles of the item
    int32_t slot, warp, lane;
    int32_t begin, first_key, end_key; // of the sequence, from `at`
    const int32_t *pages;              // of the sequence
    // Pages of the warp's next tiles, of which `passed` have been asked for. ONE_PAGE: of tile `lane` of 32. Others: a key a lane,
    // of two tiles and of the two behind them, for a page that is wanted a tile later is a trip to memory that a tile waits for.
    int32_t page, later;
    int32_t passed;
    const uint8_t *
        lane_first[2]; // IN_STEPS: the lane's 16 bytes of the first keys of page 0, of their values
    uint32_t barriers,
        parity; // WEFT_BOXES: of the warp's slots; of the phase that comes next in `slot`
};

// The first key of sixteen i of a tile.
DEVICE int32_t ring_first(const struct ring *ring, int32_t tile, int32_t i)
{
    return ring->begin + tile * KEYS + 16 * i;
}

// The lane's key of them.
DEVICE int32_t ring_key(const struct ring *ring, int32_t tile, int32_t i)
{
    return ring_first(ring, tile, i) + ring->lane % 16;
}

DEVICE bool ring_sees(const struct ring *ring, int32_t key)
{
    return key >= ring->first_key && key < ring->end_key;
}

// The page of the lane's key of the two tiles from `tile` on.
DEVICE int32_t pages_of_two(const struct weft__attention_device_args *args, const struct ring *ring,
                            int32_t tile)
{
    const int32_t own = tile + ring->lane / 16 * WARPS, key = ring_key(ring, own, 0);
    return own < ring->last && ring_sees(ring, key) ? ring->pages[place_of(args, key) / PAGE] : 0;
}

DEVICE void ring_pages(const struct weft__attention_device_args *args, struct ring *ring)
{
    ring->passed = 0;
    if (!ONE_PAGE) {
        ring->page = pages_of_two(args, ring, ring->tile);
        ring->later = pages_of_two(args, ring, ring->tile + 2 * WARPS);
        return;
    }
    const int32_t tile = ring->tile + ring->lane * WARPS;
    // of a page's sixteen keys, one that is seen
    const int32_t key = max(ring_first(ring, tile, 0), ring->first_key);
    ring->page =
        tile < ring->last && ring_sees(ring, key) ? ring->pages[place_of(args, key) / PAGE] : 0;
}

// The pages of the tile after the one that was asked for last.
DEVICE void ring_pages_next(const struct weft__attention_device_args *args, struct ring *ring)
{
    if (++ring->passed < (ONE_PAGE ? WARP : 2))
        return;
    if (ONE_PAGE) {
        ring_pages(args, ring);
    } else {
        ring->page = ring->later, ring->passed = 0;
        ring->later = pages_of_two(args, ring, ring->tile + 2 * WARPS);
    }
}

// That the lane's key of the next tile lies in.
DEVICE int32_t page_of(const struct ring *ring)
{
    return __shfl_sync(0xffffffffu, ring->page,
                       ONE_PAGE ? ring->passed : ring->passed * 16 + ring->lane % 16);
}

DEVICE const uint8_t *lane_first_of(const struct weft__attention_device_plane *plane,
                                    const struct ring *ring)
{
    const int64_t at =
        ring->at->kv_head * plane->head_stride + ring->lane / CHUNKS * plane->token_stride;
    return (const uint8_t *)plane->data + at * BYTES + ring->lane % CHUNKS * 16;
}

DEVICE void ring_item(const struct weft__attention_device_args *args, struct ring *ring)
{
    const struct sequence *seq = &ring->at->seq;
    ring->begin = seq->begin, ring->first_key = seq->first_key, ring->end_key = seq->end_key;
    ring->last = ring->at->tile + place_tiles(ring->at);
    ring->tile = ring->at->tile + ring->warp;
    ring->pages = seq->pages;
    if (IN_STEPS && !WEFT_BOXES)
        ring->lane_first[0] = lane_first_of(&args->k, ring),
        ring->lane_first[1] = lane_first_of(&args->v, ring);
    ring_pages(args, ring);
}

// The columns from HEAD to DIM of the warp's ring.
DEVICE void ring_clear_padding(int32_t warp, int32_t lane)
{
    uint8_t *ring = shared_memory() + warp * WEFT_STAGES * STAGE_BYTES;
    for (int32_t row = lane; DIM != HEAD && row < WEFT_STAGES * 2 * KEYS; row += WARP)
        *(uint4 *)(ring + row * ROW_BYTES + CHUNKS * 16) = make_uint4(0, 0, 0, 0);
}

// Where the lane's key (0..15) or value (16..31) of sixteen i of the tile lies, if it is seen.
DEVICE const uint8_t *sixteen_row(const struct weft__attention_device_args *args,
                                  const struct ring *ring, int32_t i, int32_t page)
{
    const struct weft__attention_device_plane *plane = ring->lane < 16 ? &args->k : &args->v;
    int32_t key = ring_key(ring, ring->tile, i);
    int64_t at = ring->at->kv_head * plane->head_stride;
    if (ring_sees(ring, key))
        at += page * plane->page_stride + place_of(args, key) % PAGE * plane->token_stride;
    return (const uint8_t *)plane->data + at * BYTES;
}

// Where a chunk of 16 bytes of a row lies.
DEVICE int32_t ring_chunk(int32_t plane, int32_t key, int32_t chunk)
{
#if WEFT_CODES
    return codes_chunk(plane, key, chunk);
#else
    return chunk;
#endif
}

// Keys (plane 0) or values of sixteen i, all of which are seen and lie in one page.
DEVICE void steps_ask(const struct weft__attention_device_args *args, const struct ring *ring,
                      int32_t i, int32_t p, int32_t page, uint8_t *to_rows)
{
    const struct weft__attention_device_plane *plane = p ? &args->v : &args->k;
    const uint32_t slot = (uint32_t)ring_first(ring, ring->tile, i) / 16 % (PAGE / 16) * 16;
    const uint8_t *from =
        ring->lane_first[p] + ((uint64_t)(uint32_t)page * (uint64_t)plane->page_stride +
                               (uint64_t)slot * (uint64_t)plane->token_stride) *
                                  BYTES;
    const int64_t step = STEP_ROWS * plane->token_stride * BYTES;
    const int32_t row = ring->lane / CHUNKS, chunk = ring->lane % CHUNKS;
    const uint32_t to = shared_address(to_rows);
#pragma unroll
    for (int32_t j = 0; j < 16 / STEP_ROWS; j++) {
        const int32_t at = j * STEP_ROWS + row;
        copy_16_async_as(to + at * RAW_ROW_BYTES + ring_chunk(p, at, chunk) * 16, from,
                         policy_once());
        from += step;
    }
}

// Sixteen keys and their values, all of which are seen, in rows that begin at multiples of 16 bytes.
DEVICE void sixteen_ask_whole(const struct weft__attention_device_args *args,
                              const struct ring *ring, int32_t i, int32_t page, uint8_t *to_keys)
{
    if (IN_STEPS) {
        steps_ask(args, ring, i, 0, page, to_keys);
        steps_ask(args, ring, i, 1, page, to_keys + RAW_PLANE_BYTES);
        return;
    }
    const unsigned long long row = (unsigned long long)sixteen_row(args, ring, i, page);
    const uint32_t to = shared_address(to_keys);
#pragma unroll
    for (int32_t p = 0; p < 2; p++)
#pragma unroll(DIM > 128 ? 4 : 16)
        for (int32_t j = 0; j < (16 * CHUNKS + WARP - 1) / WARP; j++) {
            const int32_t piece = j * WARP + ring->lane, at = piece / CHUNKS;
            const int32_t chunk = piece % CHUNKS;
            const uint8_t *from =
                (const uint8_t *)__shfl_sync(0xffffffffu, row, p * 16 + (at & 15));
            if (16 * CHUNKS % WARP == 0 || at < 16)
                copy_16_async_as(to + p * RAW_PLANE_BYTES + at * RAW_ROW_BYTES +
                                     ring_chunk(p, at, chunk) * 16,
                                 from + chunk * 16, policy_once());
        }
}

// Any sixteen keys and their values; what nobody sees is zeros.
DEVICE void sixteen_ask_some(const struct weft__attention_device_args *args,
                             const struct ring *ring, int32_t i, const uint8_t *row,
                             uint8_t *to_keys)
{
    const uint32_t all = __ballot_sync(0xffffffffu, ring_sees(ring, ring_key(ring, ring->tile, i)));
#pragma unroll
    for (int32_t p = 0; p < 2; p++) {
        uint32_t to = shared_address(to_keys + p * RAW_PLANE_BYTES);
#pragma unroll 4
        for (int32_t j = 0; j < (16 * CHUNKS + WARP - 1) / WARP; j++) {
            int32_t piece = j * WARP + ring->lane, at = piece / CHUNKS, chunk = piece % CHUNKS;
            const uint8_t *from = (const uint8_t *)__shfl_sync(0xffffffffu, (unsigned long long)row,
                                                               p * 16 + (at & 15));
            if (16 * CHUNKS % WARP == 0 || at < 16)
                copy_chunk(to + at * RAW_ROW_BYTES + ring_chunk(p, at, chunk) * 16,
                           from + chunk * 16, all >> (at & 15) & 1, args->aligned);
        }
    }
}

#if WEFT_BOXES == 1
// Asks for a tile.
DEVICE void ring_tile(const struct weft__attention_device_args *args, const struct ring *ring,
                      uint8_t *slot)
{
    const int32_t first = ring_first(ring, ring->tile, 0), page = page_of(ring);
    const uint32_t barrier = ring->barriers + 8 * ring->slot;
    if (elected()) {
        if (first < ring->end_key && first + KEYS > ring->first_key)
            boxes_ask(args->k_map, args->v_map, shared_address(slot), ring->at->kv_head, page,
                      first % PAGE, barrier);
        else // a sequence of no keys
            barrier_arrive(barrier);
    }
}

// Brings the warp's next tile into L2, if it is of the item and its page is known.
DEVICE void ring_prefetch(const struct weft__attention_device_args *args, const struct ring *ring)
{
    const int32_t page = page_of(ring), first = ring_first(ring, ring->tile, 0);
    if (ring->at->left > 0 && ring->tile < ring->last && first < ring->end_key && elected())
        boxes_prefetch(args->k_map, args->v_map, ring->at->kv_head, page, first % PAGE);
}

// Waits for the tile of `seq` that was asked for first, whose keys begin at key0; it lies where is asked for next.
DEVICE const uint8_t *ring_wait(const struct ring *ring, const struct sequence *seq, int32_t key0)
{
    uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
    barrier_wait(ring->barriers + 8 * ring->slot, ring->parity);
    const int32_t fresh = seq->lengths.kv_len - 1 - key0; // the row that the launch appends
    if (key0 < seq->first_key || key0 + KEYS > seq->end_key || (WEFT_APPEND && fresh < KEYS))
        boxes_mend(slot, seq->first_key - key0, seq->end_key - key0, fresh,
                   WEFT_APPEND && fresh >= 0 && fresh < KEYS ? shared_fresh() : NULL, ring->lane);
    return slot;
}
#elif WEFT_BOXES == 2
static_assert(HEAD == DIM && !WEFT_APPEND && !ONE_PAGE,
              "rows without padding, of which none is new");

// Asks for a tile: lane l for key l, or value l - 16.
DEVICE void ring_tile(const struct weft__attention_device_args *args, const struct ring *ring,
                      uint8_t *slot)
{
    const bool seen = ring_sees(ring, ring_key(ring, ring->tile, 0));
    const int32_t rows = __popc(__ballot_sync(0xffffffffu, seen));
    const uint32_t barrier = ring->barriers + 8 * ring->slot;
    const uint8_t *from = sixteen_row(args, ring, 0, page_of(ring));
    if (ring->lane == 0)
        barrier_expect(barrier, (uint32_t)rows * HEAD * 2);
    __syncwarp();
    if (seen)
        copy_bulk(shared_address(slot) +
                      (uint32_t)(ring->lane / 16 * PLANE_BYTES + ring->lane % 16 * ROW_BYTES),
                  from, HEAD * 2, barrier);
}

// Zeros for the values of a tile that nobody sees, those before row `begin` and from `end` on: a weight of 0 does not silence what
// lies there.
DEVICE void rows_mend(uint8_t *slot, int32_t begin, int32_t end, int32_t lane)
{
    enum { EACH = HEAD / 8 };
    __syncwarp();
#pragma unroll 1
    for (int32_t i = lane; i < KEYS * EACH; i += WARP)
        if (i / EACH < begin || i / EACH >= end)
            *(uint4 *)(slot + PLANE_BYTES + i / EACH * ROW_BYTES + i % EACH * 16) =
                make_uint4(0, 0, 0, 0);
    bulk_fence(); // before the slot's next rows
    __syncwarp();
}

// Waits for the tile of `seq` that was asked for first, whose keys begin at key0; it lies where is asked for next.
DEVICE const uint8_t *ring_wait(const struct ring *ring, const struct sequence *seq, int32_t key0)
{
    uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
    barrier_wait(ring->barriers + 8 * ring->slot, ring->parity);
    if (key0 < seq->first_key || key0 + KEYS > seq->end_key)
        rows_mend(slot, seq->first_key - key0, seq->end_key - key0, ring->lane);
    return slot;
}
#else
// The new key and its value, over what the cache had in their place, to row `fresh` of the tile in `slot`.
DEVICE void rows_fresh(uint8_t *slot, int32_t fresh, int32_t lane)
{
#pragma unroll 1
    for (int32_t i = lane; i < 2 * CHUNKS; i += WARP)
        *(uint4 *)(slot + i / CHUNKS * PLANE_BYTES + fresh * ROW_BYTES + i % CHUNKS * 16) =
            *(const uint4 *)(shared_fresh() + i / CHUNKS * ROW_BYTES + i % CHUNKS * 16);
    __syncwarp();
}

// Waits for the tile of `seq` that was asked for first, whose keys begin at key0; it lies where is asked for next.
DEVICE const uint8_t *ring_wait(const struct ring *ring, const struct sequence *seq, int32_t key0)
{
    uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
    const int32_t fresh = seq->lengths.kv_len - 1 - key0; // the row that the launch appends
    COPY_WAIT(WEFT_STAGES - 1);
    __syncwarp();
    if (WEFT_APPEND && fresh >= 0 && fresh < KEYS)
        rows_fresh(slot, fresh, ring->lane);
    return slot;
}

// Asks for a tile.
DEVICE void ring_tile(const struct weft__attention_device_args *args, const struct ring *ring,
                      uint8_t *slot)
{
    const int32_t page = page_of(ring);
#pragma unroll
    for (int32_t i = 0; i < KEYS / 16; i++) {
        const int32_t first = ring_first(ring, ring->tile, i);
        uint8_t *to = slot + 16 * i * RAW_ROW_BYTES;
        if (WEFT_SCALED) {
            const int32_t key = first + ring->lane % 16;
            scale_ask(ring->lane < 16 ? &args->k_scales : &args->v_scales,
                      ring->at->seq.lengths.seq, page, ring->at->kv_head,
                      place_of(args, key) % PAGE, ring_sees(ring, key),
                      (float *)(slot + 2 * RAW_PLANE_BYTES) + ring->lane / 16 * KEYS + 16 * i +
                          ring->lane % 16);
        }
        if (args->aligned && first >= ring->first_key && first + 16 <= ring->end_key)
            sixteen_ask_whole(args, ring, i, page, to);
        else
            sixteen_ask_some(args, ring, i, sixteen_row(args, ring, i, page), to);
    }
}
#endif

// Before the ring's first tile is asked for. `barriers`: WARPS times WEFT_STAGES of the block, for WEFT_BOXES.
DEVICE void ring_begin(const struct weft__attention_device_args *args, struct ring *ring,
                       struct place *at, uint64_t *barriers, int32_t warp, int32_t lane)
{
    ring->at = at, ring->slot = 0, ring->warp = warp, ring->lane = lane;
    // the first requests, as many as slots, go round once before anything is waited for
    ring->parity = 1;
#if WEFT_BOXES
    ring->barriers = shared_address(barriers + warp * WEFT_STAGES);
    if (lane < WEFT_STAGES)
        barrier_init(ring->barriers + 8 * lane, 1);
    barrier_init_end();
    __syncwarp();
#else
    (void)barriers;
    ring_clear_padding(warp, lane);
#endif
    ring_item(args, ring);
}

// Are all keys of the warp's next tile older than the run's own, which the launch before may have made?
DEVICE bool ring_is_old(const struct ring *ring)
{
    const struct lengths *lengths = &ring->at->seq.lengths;
    return ring->tile < ring->last &&
           ring_first(ring, ring->tile + 1, 0) <= lengths->kv_len - lengths->q_len;
}

// Asks for the warp's next tile; an empty request keeps the count of requests. ONE_ITEM: a block has no other, so there is no text to
// look for the next one, which would be found cold when the last tiles have been asked for.
DEVICE void ring_ask(const struct weft__attention_device_args *args, struct ring *ring)
{
    while (!ONE_ITEM && ring->at->left > 0 && ring->tile >= ring->last) {
        __syncwarp();
        if (ring->lane == 0)
            place_advance(args, ring->at, ring->last - ring->at->tile);
        __syncwarp();
        if (ring->at->left > 0)
            ring_item(args, ring);
    }
    if (ONE_ITEM ? ring->tile < ring->last : ring->at->left > 0) {
        uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
        ring_tile(args, ring, slot);
        ring->tile += WARPS;
        ring_pages_next(args, ring);
    }
    if (!WEFT_BOXES)
        copy_group_end();
    if (++ring->slot == WEFT_STAGES)
        ring->slot = 0, ring->parity ^= 1;
}

#endif
