// SPDX-License-Identifier: MIT
// The warp that asks: weights of all matrices, and the keys and values that the SM attends to, in the order in which they are
// wanted, as far ahead as the ring is long.
#ifndef WEFT_KERNELS_TOKEN_ASK_CUH
#define WEFT_KERNELS_TOKEN_ASK_CUH

#include "src/kernels/token/token_shared.cuh"

// Lane 0: waits until slot number `seq` may be asked for. Returns its barrier.
DEVICE uint32_t slot_begin(uint32_t seq)
{
    const struct shared *s = shared_rest();
    if (seq >= DEPTH)
        barrier_wait(shared_address(s->empty + seq % DEPTH), (seq / DEPTH - 1) & 1);
    if (seq >= FLIGHT)
        slot_wait(seq - FLIGHT);
    return shared_address(s->full + seq % DEPTH);
}

// Lane 0: tiles of a unit of paired rows, from where its two blocks of rows begin.
DEVICE uint32_t pair_ask(const uint8_t *first, const uint8_t *second, int32_t tiles, uint32_t seq,
                         uint64_t policy)
{
#pragma unroll 1
    for (int32_t t = 0; t < tiles; t += 2, seq++) {
        const uint32_t bytes = (uint32_t)min(tiles - t, 2) * TILE, barrier = slot_begin(seq);
        const uint32_t to = shared_address(shared_slot(seq));
        barrier_expect(barrier, 2 * bytes);
        copy_bulk_as(to, first + t * TILE, bytes, barrier, policy);
        copy_bulk_as(to + 2 * TILE, second + t * TILE, bytes, barrier, policy);
    }
    return seq;
}

DEVICE uint32_t rows_ask(const uint8_t *rows, int32_t tiles, uint32_t seq, uint64_t policy)
{
#pragma unroll 1
    for (int32_t t = 0; t < tiles; t += 4, seq++) {
        const uint32_t bytes = (uint32_t)min(tiles - t, 4) * TILE, barrier = slot_begin(seq);
        barrier_expect(barrier, bytes);
        copy_bulk_as(shared_address(shared_slot(seq)), rows + t * TILE, bytes, barrier, policy);
    }
    return seq;
}

// Lane 0: the SM's part of a matrix.
DEVICE uint32_t matrix_ask(const struct weft__token_layer *layer, int32_t kind, uint32_t seq,
                           uint64_t policy)
{
    const struct work w = work_of(kind);
    const int64_t row_bytes = (int64_t)w.tiles * TILE; // of sixteen rows
    const int32_t *share = shared_rest()->share[kind];
    const uint8_t *first = (const uint8_t *)(kind == O ? layer->o : kind == UP ? layer->gate : layer->down);
    const uint8_t *up = (const uint8_t *)layer->up;
    enum { Q_UNITS = ATTENDED / 16, K_UNITS = WEFT_KV_HEADS * WEFT_HEAD_DIM / 16 };
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1]; u++) {
        if (kind == QKV) {
            const int32_t k = u - Q_UNITS, v = k - K_UNITS;
            const void *of = k < 0 ? layer->q : v < 0 ? layer->k : layer->v;
            const int32_t row = k < 0 ? u : v < 0 ? k : v;
            seq = rows_ask((const uint8_t *)of + row * row_bytes, w.tiles, seq, policy);
        } else if (kind == UP) {
            seq = pair_ask(first + u * row_bytes, up + u * row_bytes, w.tiles, seq, policy);
        } else {
            seq = pair_ask(first + 2 * u * row_bytes, first + (2 * u + 1) * row_bytes, w.tiles, seq,
                           policy);
        }
    }
    return seq;
}

// The page of the lane's key of a tile of the SM's part.
DEVICE int32_t page_of(const struct place *at, int32_t tile, int32_t lane)
{
    const int32_t key = at->seq.begin + (at->tile + tile) * KEYS + lane % KEYS;
    return tile < at->left && sees(at, key) ? __ldcg(at->seq.pages + key / PAGE) : 0;
}

// Keys and values of the SM's part, a slot a tile: lane l brings key l, or value l - 16. Rows that nobody sees are zeros; the new
// key comes from elsewhere.
DEVICE uint32_t keys_ask(const struct weft__attention_device_args *args,
                         const struct weft__token_layer *layer, uint32_t seq, int32_t page,
                         int32_t lane)
{
    const struct place *at = &shared_rest()->place;
    const struct weft__attention_device_plane *plane = lane < KEYS ? &args->k : &args->v;
    const uint16_t *data = (const uint16_t *)(lane < KEYS ? layer->keys : layer->values);
    const int32_t fresh = at->seq.lengths.kv_len - 1;
#pragma unroll 1
    for (int32_t tile = 0; tile < at->left; tile++, seq++) {
        const int32_t key = at->seq.begin + (at->tile + tile) * KEYS + lane % KEYS, own = page;
        const bool seen = sees(at, key), comes = seen && key != fresh;
        const uint32_t rows = (uint32_t)__popc(__ballot_sync(0xffffffffu, comes));
        const uint32_t barrier = shared_address(shared_rest()->full + seq % DEPTH);
        page = page_of(at, tile + 1, lane);
        if (lane == 0) {
            slot_begin(seq);
            barrier_expect(barrier, rows * HEAD * 2);
        }
        __syncwarp();
        const uint32_t to = shared_address(shared_slot(seq)) + lane / KEYS * PLANE_BYTES +
                            lane % KEYS * ROW_BYTES;
        if (comes)
            copy_bulk(to, data + plane_at(plane, at->kv_head, own, key), HEAD * 2, barrier);
        __syncwarp();
    }
    return seq;
}

DEVICE void ask_all(const struct weft__token_args *args, int32_t lane)
{
    const uint64_t policy = policy_once();
    const struct shared *s = shared_rest();
    uint32_t seq = 0;
    struct weft__token_layer layer = args->layers[0];
#pragma unroll 1
    for (int32_t l = 0; l < args->num_layers; l++) {
        // asked for a layer ahead: memory is slow for who is to keep it busy
        const struct weft__token_layer next = args->layers[min(l + 1, args->num_layers - 1)];
        const int32_t page = s->attends ? page_of(&s->place, 0, lane) : 0;
        if (lane == 0 && l > 0)
            seq = matrix_ask(&layer, QKV, seq, policy);
        seq = __shfl_sync(0xffffffffu, seq, 0);
        if (s->attends)
            seq = keys_ask(&args->attention, &layer, seq, page, lane);
        if (lane == 0) {
#pragma unroll 1
            for (int32_t kind = O; kind < KINDS; kind++)
                seq = matrix_ask(&layer, kind, seq, policy);
        }
        __syncwarp();
        layer = next;
    }
}

#endif
