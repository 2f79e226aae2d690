// SPDX-License-Identifier: MIT
// The warp that asks: weights of all matrices, and the keys and values that the SM attends to, in the order in which they are
// wanted, as far ahead as the ring is long.
#ifndef WEFT_KERNELS_TOKEN_ASK_CUH
#define WEFT_KERNELS_TOKEN_ASK_CUH

#include "src/kernels/token/token_shared.cuh"

// The next slot, and the one whose bytes must have come before it is asked for.
struct asker {
    uint32_t slot, parity;
    uint32_t behind, behind_parity;
    int32_t ahead; // slots asked for, FLIGHT at most
    uint64_t policy;
};

// Waits until the next slot may be asked for. Returns its barrier.
DEVICE uint32_t slot_begin(struct asker *a)
{
    const struct shared *s = shared_rest();
    barrier_wait(shared_address(s->empty) + 8 * a->slot, a->parity);
    if (a->ahead < FLIGHT) {
        a->ahead++;
    } else {
        barrier_wait(shared_address(s->full) + 8 * a->behind, a->behind_parity);
        if (++a->behind == DEPTH)
            a->behind = 0, a->behind_parity ^= 1;
    }
    return shared_address(s->full) + 8 * a->slot;
}

DEVICE void slot_next(struct asker *a)
{
    if (++a->slot == DEPTH)
        a->slot = 0, a->parity ^= 1;
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
            boxes_of_slot(ring + a->slot * SLOT, first, second, column,
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
    const uint32_t to = shared_address(shared_memory()) + a->slot * SLOT;
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

// Tiles of sixteen rows that are added up in chains of eight columns.
DEVICE void eights_ask(struct asker *a, const uint8_t *rows, int32_t tiles)
{
#pragma unroll 1
    for (int32_t t = 0; t < 2 * EIGHT_SLOTS; t += TEAM_WARPS)
        slot_ask(a, rows + t * TILE, TEAM_WARPS * TILE, rows + (t + 8) * TILE,
                 min(max(tiles - t - 8, 0), TEAM_WARPS) * TILE, TEAM_WARPS * TILE);
}

#if WEFT_SECOND

// Units of a matrix of the second format, `count` from `rows` on.
DEVICE void second_ask(struct asker *a, const uint8_t *rows, int32_t count,
                       const struct second_work *w)
{
    enum { BYTES = second_format::SECOND_TILE_BYTES };
    const int64_t row_bytes = (int64_t)w->tiles * BYTES; // of sixteen rows
#pragma unroll 1
    for (int32_t i = 0; i < count; i++, rows += w->columns ? 2 * row_bytes : row_bytes)
#pragma unroll 1
        for (int32_t t = 0; t < w->tiles; t += w->columns ? 1 : 2)
            if (w->columns)
                slot_ask(a, rows + t * BYTES, BYTES, rows + row_bytes + t * BYTES, BYTES, BYTES);
            else
                slot_ask(a, rows + t * BYTES, min(w->tiles - t, 2) * BYTES, NULL, 0, 0);
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
        copy_bulk_as(shared_address(shared_memory()) + a->slot * SLOT, rows, bytes, barrier,
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
        } else if (kind == UP && form_of(UP) == EIGHTS) {
            eights_ask(a, first + u * row_bytes, w.tiles);
            eights_ask(a, up + u * row_bytes, w.tiles);
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
        const uint32_t barrier = slot_begin(a), to = shared_address(shared_keys(a->slot));
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
    struct asker a = {0, 1, 0, 0, 0, policy_once()};
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
