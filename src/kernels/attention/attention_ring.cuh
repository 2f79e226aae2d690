// SPDX-License-Identifier: MIT
// The ring of a decode warp: tiles of keys and values on their way to shared memory while earlier ones are
// worked at. A lane computes where one key (lanes 0..15) or value (16..31) of sixteen lies, the others get it by
// shuffle: any page size from 1 costs the same.
//
// The ring runs ahead of the work, over the ends of items.
#ifndef WEFT_KERNELS_ATTENTION_RING_CUH
#define WEFT_KERNELS_ATTENTION_RING_CUH

#include "src/kernels/attention/attention_codes.cuh"
#include "src/kernels/attention/attention_fresh.cuh"
#include "src/kernels/attention/attention_widen.cuh"

struct ring {
    struct place *at; // the item that is asked for, in shared memory; left counts the block's tiles
    int32_t tile;     // the warp's next tile of it
    int32_t last;     // end of the block's tiles of the item
    int32_t slot, warp, lane;
    const int32_t *pages;    // of the sequence
    int32_t page[KEYS / 16]; // that the lane's keys of the next tile lie in, asked for a tile ahead
};

// The lane's key of sixteen i of a tile.
DEVICE int32_t ring_key(const struct ring *ring, int32_t tile, int32_t i)
{
    return ring->at->seq.begin + tile * KEYS + 16 * i + ring->lane % 16;
}

DEVICE bool ring_sees(const struct ring *ring, int32_t key)
{
    return key >= ring->at->seq.first_key && key < ring->at->seq.end_key;
}

DEVICE void ring_pages(const struct weft__attention_device_args *args, struct ring *ring)
{
#pragma unroll
    for (int32_t i = 0; i < KEYS / 16; i++) {
        int32_t key = ring_key(ring, ring->tile, i);
        ring->page[i] = ring->tile < ring->last && ring_sees(ring, key)
                            ? ring->pages[place_of(args, key) / PAGE]
                            : 0;
    }
}

DEVICE void ring_item(const struct weft__attention_device_args *args, struct ring *ring)
{
    ring->last = ring->at->tile + place_tiles(ring->at);
    ring->tile = ring->at->tile + ring->warp;
    ring->pages = pages_of(args, ring->at->seq.lengths.seq);
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
                                  const struct ring *ring, int32_t i)
{
    const struct weft__attention_device_plane *plane = ring->lane < 16 ? &args->k : &args->v;
    int32_t key = ring_key(ring, ring->tile, i);
    int64_t at = ring->at->kv_head * plane->head_stride;
    if (ring_sees(ring, key))
        at += ring->page[i] * plane->page_stride + place_of(args, key) % PAGE * plane->token_stride;
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

// Asks for sixteen keys and their values. `fresh` is the one of them that the launch itself appends, or -1.
DEVICE void sixteen_ask(const struct weft__attention_device_args *args, const struct ring *ring,
                        int32_t i, const uint8_t *row, int32_t fresh, uint8_t *to_keys)
{
    const uint32_t all = __ballot_sync(0xffffffffu, ring_sees(ring, ring_key(ring, ring->tile, i)));
#pragma unroll
    for (int32_t p = 0; p < 2; p++) {
        uint32_t to = shared_address(to_keys + p * RAW_PLANE_BYTES);
#pragma unroll(DIM > 128 ? 4 : 16)
        for (int32_t j = 0; j < (16 * CHUNKS + WARP - 1) / WARP; j++) {
            int32_t piece = j * WARP + ring->lane, at = piece / CHUNKS, chunk = piece % CHUNKS;
            const uint8_t *from = (const uint8_t *)__shfl_sync(0xffffffffu, (unsigned long long)row,
                                                               p * 16 + (at & 15));
            if ((16 * CHUNKS % WARP == 0 || at < 16) && (!WEFT_APPEND || at != fresh))
                copy_chunk(to + at * RAW_ROW_BYTES + ring_chunk(p, at, chunk) * 16,
                           from + chunk * 16, all >> (at & 15) & 1, args->aligned);
        }
    }
}

// Asks for a tile. The new key of a sequence is computed meanwhile and goes to the tile and to the cache.
DEVICE void ring_tile(const struct weft__attention_device_args *args, const struct ring *ring,
                      uint8_t *slot)
{
#pragma unroll
    for (int32_t i = 0; i < KEYS / 16; i++) {
        const uint8_t *row = sixteen_row(args, ring, i);
        uint8_t *to = slot + 16 * i * RAW_ROW_BYTES;
        if (WEFT_SCALED) {
            const int32_t key = ring_key(ring, ring->tile, i);
            scale_ask(ring->lane < 16 ? &args->k_scales : &args->v_scales,
                      ring->at->seq.lengths.seq, ring->page[i], ring->at->kv_head,
                      place_of(args, key) % PAGE, ring_sees(ring, key),
                      (float *)(slot + 2 * RAW_PLANE_BYTES) + ring->lane / 16 * KEYS + 16 * i +
                          ring->lane % 16);
        }
#if WEFT_APPEND
        const struct lengths lengths = ring->at->seq.lengths;
        const int32_t fresh = lengths.kv_len - 1 - ring_key(ring, ring->tile, i) + ring->lane % 16;
        if (fresh >= 0 && fresh < 16) {
            const struct fresh head = fresh_load(args, lengths, ring->at->kv_head, ring->lane);
            sixteen_ask(args, ring, i, row, fresh, to);
            fresh_store(args, &head, lengths.kv_len - 1, ring->lane, to + fresh * ROW_BYTES,
                        (uint16_t *)__shfl_sync(0xffffffffu, (unsigned long long)row, fresh),
                        (uint16_t *)__shfl_sync(0xffffffffu, (unsigned long long)row, 16 + fresh));
            continue;
        }
#endif
        sixteen_ask(args, ring, i, row, -1, to);
    }
}

// Are all keys of the warp's next tile older than the run's own, which the launch before may have made?
DEVICE bool ring_is_old(const struct ring *ring)
{
    const struct sequence *seq = &ring->at->seq;
    return ring->tile < ring->last &&
           seq->begin + (ring->tile + 1) * KEYS <= seq->lengths.kv_len - seq->lengths.q_len;
}

// Asks for the warp's next tile; an empty request keeps the count of requests.
DEVICE void ring_ask(const struct weft__attention_device_args *args, struct ring *ring)
{
    while (ring->at->left > 0 && ring->tile >= ring->last) {
        __syncwarp();
        if (ring->lane == 0)
            place_advance(args, ring->at, ring->last - ring->at->tile);
        __syncwarp();
        if (ring->at->left > 0)
            ring_item(args, ring);
    }
    if (ring->at->left > 0) {
        uint8_t *slot = shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
        ring_tile(args, ring, slot);
        ring->tile += WARPS;
        ring_pages(args, ring);
    }
    copy_group_end();
    ring->slot = ring->slot + 1 == WEFT_STAGES ? 0 : ring->slot + 1;
}

#endif
