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

// Is the next slot looked at while one is asked for? Where slots of a second format have less to copy than who asks has to do, and of
// q4_k; others are asked for no faster than memory brings them, and lose by it (NOTES.md).
#if PLAIN
enum { LOOKS_AHEAD = 0 };
#else
enum { LOOKS_AHEAD = WEFT_SECOND || WEFT_FORMAT == FORMAT_Q4_K };
#endif

// The next slot, which must have been read, and the one FLIGHT before, whose bytes must have come before it is asked for. (Those before the
// first slot have come: their parities are the ones that barriers begin with.)
struct asker {
    struct walker next, behind;
    bool ready; // both are, as they were looked at when the one before was asked for
    uint64_t policy;
};

DEVICE struct asker asker_make()
{
    const struct asker a = {{0, 1}, {DEPTH - FLIGHT, 1}, false, policy_once()};
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

// A slot that may be asked for: where it is, and its barrier.
struct asked {
    uint32_t to, full;
};

// Waits until the next slot may be asked for.
DEVICE struct asked slot_begin(struct asker *a)
{
    if (!a->ready)
        barriers_wait(empty_barrier(a->next), a->next.parity, full_barrier(a->behind),
                      a->behind.parity);
    const struct asked slot = {shared_address(shared_memory()) + a->next.slot * SLOT,
                               full_barrier(a->next)};
    walk(&a->next), walk(&a->behind);
    a->ready = false;
    return slot;
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
#pragma unroll 1
    for (int32_t u = share[0]; u < share[1]; u++) {
        const struct unit_place at = unit_at(kind, u);
        const void *first = layer->maps[at.map];
        const void *second = w.form == PAIRS ? layer->maps[WEFT__TOKEN_MAP_up] : first;
#pragma unroll 1
        for (int32_t slot = 0; slot < w.slots; slot++) {
            const int32_t column = slot_column(w.form, slot);
            const struct asked s = slot_begin(a);
            boxes_of_slot(s.to, first, second, column, w.form == PAIRS ? column : column + 16,
                          at.row, s.full, a->policy);
        }
    }
}

#else

DEVICE struct two_phases next_phases(const struct asker *a)
{
    const struct two_phases next = {{empty_barrier(a->next), full_barrier(a->behind)},
                                    {a->next.parity, a->behind.parity}};
    return next;
}

// A slot of one piece.
DEVICE void slot_ask(struct asker *a, const uint8_t *from, int32_t bytes)
{
    const struct asked s = slot_begin(a);
    if (LOOKS_AHEAD) {
        a->ready = copy_and_look(s.to, from, (uint32_t)bytes, s.full, a->policy, next_phases(a));
        return;
    }
    barrier_expect(s.full, (uint32_t)bytes);
    copy_bulk_as(s.to, from, (uint32_t)bytes, s.full, a->policy);
}

// Of two.
DEVICE void slot_ask_two(struct asker *a, const uint8_t *first, const uint8_t *second,
                         int32_t bytes)
{
    enum { APART = TEAM_WARPS * TILE };
    const struct asked s = slot_begin(a);
    if (LOOKS_AHEAD) {
        a->ready = copy_two_and_look(s.to, first, second, APART, (uint32_t)bytes, s.full, a->policy,
                                     next_phases(a));
        return;
    }
    barrier_expect(s.full, 2 * (uint32_t)bytes);
    copy_bulk_as(s.to, first, (uint32_t)bytes, s.full, a->policy);
    copy_bulk_as(s.to + APART, second, (uint32_t)bytes, s.full, a->policy);
}

// Tiles of a unit of paired rows, from where its two blocks of rows begin.
DEVICE void pair_ask(struct asker *a, const uint8_t *first, const uint8_t *second, int32_t tiles)
{
#pragma unroll 1
    for (int32_t left = tiles; left > 0; left -= TEAM_WARPS) {
        const int32_t bytes = min(left, TEAM_WARPS) * TILE;
        slot_ask_two(a, first, second, bytes);
        first += TEAM_WARPS * TILE, second += TEAM_WARPS * TILE;
    }
}

#if WEFT_SECOND

// Units of a matrix of the second format, `count` from `rows` on: of two blocks, or (not w->columns) of one.
DEVICE void second_ask(struct asker *a, const uint8_t *rows, int32_t count,
                       const struct second_work *w)
{
    enum { BYTES = second_format::SECOND_TILE_BYTES };
    const int64_t row_bytes = (int64_t)w->tiles * BYTES; // of sixteen rows
    const int64_t apart =
        w->columns ? row_bytes : 0; // from a slot to the next one of the same columns
#pragma unroll 1
    for (int32_t i = 0; i < count; i++, rows += row_bytes + apart) {
        const uint8_t *at = rows;
#pragma unroll 1
        for (int32_t left = w->tiles; left > 0; left -= 2, at += 2 * BYTES) {
            slot_ask(a, at, min(left, 2) * BYTES);
            if (w->columns)
                slot_ask(a, at + apart, min(left, 2) * BYTES);
        }
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
        slot_ask(a, rows, min(left, SLOT_TILES) * TILE);
        rows += SLOT_TILES * TILE;
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
        const uint32_t seq = a->next.slot;
        const struct asked s = slot_begin(a);
        boxes_ask(layer->k_map, layer->v_map, shared_address(shared_keys(seq)), at->kv_head, own,
                  key % PAGE, s.full);
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
DEVICE void ask_all(const struct weft__token_args *args, struct asker *a)
{
    const struct shared *s = shared_rest();
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
        if (!WEFT_BEGINS && l == 0 && s->attends)
            text_wait();
        const int32_t page = s->attends && (!WEFT_BEGINS || l > 0) ? page_of(&s->place, 0) : 0;
        prefetch_map(args->layers[min(l + 1, args->num_layers - 1)].k_map);
        prefetch_map(args->layers[min(l + 1, args->num_layers - 1)].v_map);
        if (WEFT_BEGINS || l > 0)
            matrix_ask(a, now, QKV, is_second(args, QKV, l), false);
        if (WEFT_BEGINS && l == 0 && s->attends)
            text_wait();
        if (s->attends)
            keys_ask(a, args->layers + l, !WEFT_BEGINS || l > 0 ? page : page_of(&s->place, 0));
#if PLAIN // a text of each: what they have of rows is constant
        matrix_ask(a, now, O, false, false);
        matrix_ask(a, now, UP, false, false);
        matrix_ask(a, now, DOWN, false, false);
#else
#pragma unroll 1
        for (int32_t kind = O; kind < KINDS; kind++)
            matrix_ask(a, now, kind, is_second(args, kind, l), l + 1 == args->num_layers);
        layer = next;
#endif
    }
}

#endif
