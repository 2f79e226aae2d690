// SPDX-License-Identifier: MIT
// The warp that asks: weights of all matrices, and the keys and values that the SM attends to, in the order in which they are
// wanted, as far ahead as the ring is long.
#ifndef WEFT_KERNELS_TOKEN_ASK_CUH
#define WEFT_KERNELS_TOKEN_ASK_CUH

#include "src/kernels/token/token_shared.cuh"

// A slot, and a parity of its barrier.
struct walker {
    uint32_t slot, parity;
};

DEVICE void walk(struct walker *w)
{
    if (++w->slot == DEPTH)
        w->slot = 0, w->parity ^= 1;
}

// The next slot, which must have been read, and the one FLIGHT before, whose bytes must have come before it is asked for. (Those before the
// first slot have come: their parities are the ones that barriers begin with.)
struct asker {
    struct walker next, behind;
    uint64_t policy;
};

DEVICE struct asker asker_make()
{
    const struct asker a = {{0, 1}, {DEPTH - FLIGHT, 1}, policy_once()};
    return a;
}

DEVICE uint32_t empty_barrier(struct walker w)
{
    return shared_address(shared_rest()->empty) + 8 * w.slot;
}

DEVICE uint32_t full_barrier(struct walker w)
{
    return shared_address(shared_rest()->full) + 8 * w.slot;
}

// Waits until the next slot may be asked for. Returns its barrier.
DEVICE uint32_t slot_begin(struct asker *a)
{
    barriers_wait(empty_barrier(a->next), a->next.parity, full_barrier(a->behind),
                  a->behind.parity);
    walk(&a->behind);
    return full_barrier(a->next);
}

DEVICE void slot_next(struct asker *a)
{
    walk(&a->next);
}

// The next two slots: where they are and their barriers, which are waited for side by side, for that is what takes the time of who asks.
struct two_slots {
    uint32_t to[2], full[2];
};

DEVICE struct two_slots two_begin(struct asker *a)
{
    const struct walker first = a->next, behind = a->behind;
    walk(&a->next), walk(&a->behind);
    const uint32_t barrier[4] = {empty_barrier(first), empty_barrier(a->next), full_barrier(behind),
                                 full_barrier(a->behind)};
    const uint32_t parity[4] = {first.parity, a->next.parity, behind.parity, a->behind.parity};
    barriers_wait_4(barrier, parity);
    const uint32_t ring = shared_address(shared_memory());
    const struct two_slots two = {{ring + first.slot * SLOT, ring + a->next.slot * SLOT},
                                  {full_barrier(first), full_barrier(a->next)}};
    walk(&a->next), walk(&a->behind);
    return two;
}

#if PLAIN

// The map of a unit, and its first row there.
struct unit_place {
    int32_t map, row;
};

DEVICE struct unit_place unit_at(int32_t kind, int32_t u)
{
    if (kind != QKV) {
        const struct unit_place at = {kind == O    ? WEFT__TOKEN_MAP_o
                                      : kind == UP ? WEFT__TOKEN_MAP_gate
                                                   : WEFT__TOKEN_MAP_down,
                                      u * 16};
        return at;
    }
    const int32_t unit = head_unit(u - shared_rest()->share[QKV][0]);
    const int32_t k = unit - ATTENDED / 16, v = unit - Q_K_UNITS;
    const struct unit_place at = {k < 0   ? WEFT__TOKEN_MAP_q
                                  : v < 0 ? WEFT__TOKEN_MAP_k
                                          : WEFT__TOKEN_MAP_v,
                                  (k < 0   ? unit
                                   : v < 0 ? k
                                           : v) *
                                      16};
    return at;
}

// The SM's part of a matrix of plain weights.
DEVICE void matrix_ask(struct asker *a, const struct weft__token_layer *layer, int32_t kind, bool,
                       bool)
{
    const struct work w = work_of(kind);
    const int32_t *share = shared_rest()->share[kind];
    const uint32_t ring = shared_address(shared_memory());
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1]; u++) {
        const struct unit_place at = unit_at(kind, u);
        const void *first = layer->maps[at.map];
        const void *second = w.form == PAIRS ? layer->maps[WEFT__TOKEN_MAP_up] : first;
#pragma unroll 1
        for (int32_t slot = 0; slot < w.slots; slot++) {
            const int32_t column = slot_column(w.form, slot);
            const uint32_t barrier = slot_begin(a);
            boxes_of_slot(ring + a->next.slot * SLOT, first, second, column,
                          w.form == PAIRS ? column : column + 16, at.row, barrier, a->policy);
            slot_next(a);
        }
    }
}

#else

// A slot of two pieces, `apart` from one another.
DEVICE void slot_ask(struct asker *a, const uint8_t *first, int32_t first_bytes,
                     const uint8_t *second, int32_t second_bytes, uint32_t apart)
{
    const uint32_t barrier = slot_begin(a);
    const uint32_t to = shared_address(shared_memory()) + a->next.slot * SLOT;
    barrier_expect(barrier, (uint32_t)(first_bytes + second_bytes));
    copy_bulk_as(to, first, (uint32_t)first_bytes, barrier, a->policy);
    if (second_bytes > 0)
        copy_bulk_as(to + apart, second, (uint32_t)second_bytes, barrier, a->policy);
    slot_next(a);
}

// Tiles of a unit of paired rows, from where its two blocks of rows begin.
DEVICE void pair_ask(struct asker *a, const uint8_t *first, const uint8_t *second, int32_t tiles)
{
#pragma unroll 1
    for (int32_t left = tiles; left > 0; left -= TEAM_WARPS) {
        const int32_t bytes = min(left, TEAM_WARPS) * TILE;
        slot_ask(a, first, bytes, second, bytes, TEAM_WARPS * TILE);
        first += TEAM_WARPS * TILE, second += TEAM_WARPS * TILE;
    }
}

#if WEFT_SECOND

// Two slots, or one where `second_bytes` is 0, of a piece each.
DEVICE void two_slots_ask(struct asker *a, const uint8_t *first, uint32_t first_bytes,
                          const uint8_t *second, uint32_t second_bytes)
{
    if (second_bytes == 0) {
        slot_ask(a, first, (int32_t)first_bytes, NULL, 0, 0);
        return;
    }
    const struct two_slots two = two_begin(a);
    barrier_expect(two.full[0], first_bytes);
    copy_bulk_as(two.to[0], first, first_bytes, two.full[0], a->policy);
    barrier_expect(two.full[1], second_bytes);
    copy_bulk_as(two.to[1], second, second_bytes, two.full[1], a->policy);
}

// Units of a matrix of the second format, `count` from `rows` on: of two blocks, or (not w->columns) of one.
DEVICE void second_ask(struct asker *a, const uint8_t *rows, int32_t count,
                       const struct second_work *w)
{
    enum { BYTES = second_format::SECOND_TILE_BYTES };
    const int64_t row_bytes = (int64_t)w->tiles * BYTES; // of sixteen rows
    // from slot to slot: columns, and bytes
    const int32_t step = w->columns ? 2 : 4;
    const int64_t apart = w->columns ? row_bytes : 2 * BYTES;
#pragma unroll 1
    for (int32_t i = 0; i < count; i++, rows += w->columns ? 2 * row_bytes : row_bytes) {
        const uint8_t *at = rows;
#pragma unroll 1
        for (int32_t left = w->tiles; left > 0; left -= step, at += step * BYTES)
            two_slots_ask(a, at, (uint32_t)min(left, 2) * BYTES, at + apart,
                          (uint32_t)(w->columns ? min(left, 2) : min(max(left - 2, 0), 2)) * BYTES);
    }
}

// What the SM has of V or of down, where they have it.
DEVICE void second_part_ask(struct asker *a, const struct weft__token_layer *layer, int32_t kind,
                            bool last)
{
    const struct second_work w = second_work_of(kind, last);
    const int32_t *share = shared_rest()->share[kind];
    const int64_t row_bytes = (int64_t)w.tiles * second_format::SECOND_TILE_BYTES;
    const uint8_t *rows = (const uint8_t *)(kind == QKV ? layer->v : layer->down);
    const int32_t first = kind == QKV ? v_before(share[0]) : 2 * share[0];
    const int32_t blocks = kind == QKV || w.columns ? 1 : 2; // that are asked for one by one
    second_ask(a, rows + first * row_bytes, blocks * second_units(kind, true), &w);
}

#endif

DEVICE void rows_ask(struct asker *a, const uint8_t *rows, int32_t tiles)
{
#pragma unroll 1
    for (int32_t left = tiles; left > 0; left -= SLOT_TILES) {
        const uint32_t bytes = (uint32_t)min(left, SLOT_TILES) * TILE, barrier = slot_begin(a);
        barrier_expect(barrier, bytes);
        copy_bulk_as(shared_address(shared_memory()) + a->next.slot * SLOT, rows, bytes, barrier,
                     a->policy);
        rows += SLOT_TILES * TILE;
        slot_next(a);
    }
}

// The SM's part of a matrix.
DEVICE void matrix_ask(struct asker *a, const struct weft__token_layer *layer, int32_t kind,
                       bool second, bool last)
{
    const struct work w = work_of(kind);
    const int64_t row_bytes = (int64_t)w.tiles * TILE; // of sixteen rows
    const int32_t *share = shared_rest()->share[kind];
    const uint8_t *first = (const uint8_t *)(kind == O    ? layer->o
                                             : kind == UP ? layer->gate
                                                          : layer->down);
    const uint8_t *up = (const uint8_t *)layer->up;
    enum { Q_UNITS = ATTENDED / 16 };
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1] - second_units(kind, second); u++) {
        if (kind == QKV) {
            const int32_t unit = head_unit(u - share[0]), k = unit - Q_UNITS, v = unit - Q_K_UNITS;
            const void *of = k < 0 ? layer->q : v < 0 ? layer->k : layer->v;
            const int32_t row = k < 0 ? unit : v < 0 ? k : v;
            rows_ask(a, (const uint8_t *)of + row * row_bytes, w.tiles);
        } else if (kind == UP) {
            pair_ask(a, first + u * row_bytes, up + u * row_bytes, w.tiles);
        } else {
            pair_ask(a, first + 2 * u * row_bytes, first + (2 * u + 1) * row_bytes, w.tiles);
        }
    }
#if WEFT_SECOND
    if (second)
        second_part_ask(a, layer, kind, last);
#else
    (void)last;
#endif
}

#endif

// The page of a tile of the SM's part.
DEVICE int32_t page_of(const struct place *at, int32_t tile)
{
    const int32_t key = at->seq.begin + (at->tile + tile) * KEYS;
    return tile < at->left ? __ldcg(at->seq.pages + max(key, at->seq.first_key) / PAGE) : 0;
}

// Keys and values of the SM's part, a slot a tile, in boxes (attention_boxes.cuh). What nobody sees, and the new key, is mended when it is
// there.
DEVICE void keys_ask(struct asker *a, const struct weft__token_layer *layer, int32_t page)
{
    const struct place *at = &shared_rest()->place;
#pragma unroll 1
    for (int32_t tile = 0; tile < at->left; tile++) {
        const int32_t key = at->seq.begin + (at->tile + tile) * KEYS, own = page;
        page = page_of(at, tile + 1);
        const uint32_t barrier = slot_begin(a), to = shared_address(shared_keys(a->next.slot));
        boxes_ask(layer->k_map, layer->v_map, to, at->kv_head, own, key % PAGE, barrier);
        slot_next(a);
    }
}

#if PLAIN

DEVICE void maps_ask(const struct weft__token_layer *layer)
{
#pragma unroll
    for (int32_t i = 0; i < WEFT__TOKEN_MAPS; i++)
        prefetch_map(layer->maps[i]);
}

// Weights of norms, which every SM reads whole, come into L2 before, each SM's part of them.
DEVICE void norms_ask(const struct weft__token_layer *layer)
{
    const float *const norms[2] = {layer->up_norm, layer->next_norm};
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        for (int32_t at = (int32_t)blockIdx.x * 32; norms[i] && at < EMBED;
             at += (int32_t)gridDim.x * 32)
            prefetch_l2(norms[i] + at);
}

#endif

// By one lane.
DEVICE void ask_all(const struct weft__token_args *args)
{
    const struct shared *s = shared_rest();
    struct asker a = asker_make();
#if !PLAIN
    struct weft__token_layer layer = args->layers[0];
#endif
#pragma unroll 1
    for (int32_t l = 0; l < args->num_layers; l++) {
        // asked for a layer ahead: memory is slow for who is to keep it busy
#if PLAIN
        const struct weft__token_layer *const now = args->layers + l;
        maps_ask(args->layers + min(l + 1, args->num_layers - 1));
        norms_ask(now);
#else
        const struct weft__token_layer next = args->layers[min(l + 1, args->num_layers - 1)];
        const struct weft__token_layer *const now = &layer;
#endif
        const int32_t page = s->attends ? page_of(&s->place, 0) : 0;
        prefetch_map(args->layers[min(l + 1, args->num_layers - 1)].k_map);
        prefetch_map(args->layers[min(l + 1, args->num_layers - 1)].v_map);
        if (l > 0)
            matrix_ask(&a, now, QKV, is_second(args, QKV, l), false);
        if (s->attends)
            keys_ask(&a, args->layers + l, page);
#if PLAIN // a text of each: what they have of rows is constant
        matrix_ask(&a, now, O, false, false);
        matrix_ask(&a, now, UP, false, false);
        matrix_ask(&a, now, DOWN, false, false);
#else
#pragma unroll 1
        for (int32_t kind = O; kind < KINDS; kind++)
            matrix_ask(&a, now, kind, is_second(args, kind, l), l + 1 == args->num_layers);
        layer = next;
#endif
    }
}

#endif
