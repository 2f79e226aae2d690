// SPDX-License-Identifier: MIT
// Attention over caches of f16 on the tiles of AMX, which multiply bf16: a number of f16 has 11 bits and is the sum
// of two of bf16, what that has of it and the rest. Queries are f16, or may be rounded to it; weights are two parts, too, and lose
// what is below 2^-16 of them. Sums are f32.
//
//      score    =  (most + rest of key) * (most + rest of q)                           four products, exact
//      acc     +=  most of weight * (most + rest of value) + rest of weight * most of value
//
// Fourteen times as many products as f32 multiply-adds make it worth while. A number that is infinite or none has no rest:
// scores of such keys and queries are made one by one, such values are added behind the product to the rows that see them.
#include "src/kernels/attention/attention_f16_amx.h"
#include "src/kernels/attention/attention_strips_rows_amx.h"

weft__attention_fn weft__attention_F16_amx, weft__attention_F16_avx512;

// Values a and b of two keys, sixteen columns at a time, beside each other. Returns the larger of each place; with
// infinities and NaNs among them they are done again, `tame`.
INLINE __m512i gather_pair(const struct tiles *t, const uint16_t *a, const uint16_t *b, int64_t to,
                           const bool tame)
{
    __m512i largest = _mm512_setzero_si512();
    for (int32_t i = 0; i < t->rows.call->v.dim; i += GROUP, to += t->value_pair)
        VF32_UNROLL
    for (int32_t h = 0; h < GROUP; h += 16) {
        const int64_t place = to + h / 16 * TILE_NUMBERS;
        const uint16_t *x = a + i + h, *y = b + i + h;
        const struct parts parts = tame ? parts_of_f16(tame_sixteen(x), tame_sixteen(y))
                                        : parts_of_f16(load_sixteen(x), load_sixteen(y));
        if (h == 0)
            largest = largest_f16(largest_f16(largest, x), y);
        _mm512_storeu_si512(t->values + place, parts.most);
        _mm512_storeu_si512(t->values_rest + place, parts.rest);
    }
    return largest;
}

static __attribute__((noinline)) void gather_wild_pair(struct tiles *t, int32_t first,
                                                       int32_t second, const uint16_t *a,
                                                       const uint16_t *b, int64_t to)
{
    // Which of the two is looked at by its own.
    t->wild |= (uint64_t)is_wild_f16(gather_pair(t, a, a, to, true)) << first;
    t->wild |= (uint64_t)is_wild_f16(gather_pair(t, b, b, to, true)) << second;
    gather_pair(t, a, b, to, true);
}

// The values of the block from element `start` of the tiles on; a pair is of keys that are 16 apart.
INLINE void gather_values_f16(struct tiles *t, int64_t start)
{
    const struct rows *s = &t->rows;
    const uint16_t *from = (const uint16_t *)(const void *)s->call->v.data;
    t->wild = 0;
    for (int32_t pair = 0; pair < PAIRS; pair++) {
        const int32_t first = pair / 16 * 32 + pair % 16, second = first + 16;
        const uint16_t *a = from + s->values_at[first], *b = from + s->values_at[second];
        const int64_t to = start + pair / 16 * t->value_half + pair % 16 * 32;
        ask_rows(t, t->eager ? 2 : 1);
        if (is_wild_f16(gather_pair(t, a, b, to, false)))
            gather_wild_pair(t, first, second, a, b, to);
    }
}

static __attribute__((noinline)) void score_wild_strip(const struct strips *t, int32_t strip,
                                                       int32_t slot, int32_t turn)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    for (int32_t r = strip * STRIP; r < end; r++) {
        float q[WEFT__ATTENTION_MAX_DIM];
        float *scores = s->scores + scores_at(r / LANES, turn) + r % LANES * LANES;
        weft__attention_query(s->call, s->tile, r, q);
        for (int32_t i = 0; s->call->scale < 0 && i < s->call->k.dim; i++)
            q[i] = -q[i];
        for (int32_t key = 0; key < BLOCK; key++)
            if (t->tiles.wild_queries || t->wild_keys[slot] >> key & 1)
                scores[key / 16 * TILE_SUMS + key % 16] =
                    score_one(s, q, t->key_places[slot * BLOCK + key]);
    }
}

// Both parts of sixteen keys, to be turned.
static void widen_sixteen(struct strips *t, int i)
{
    const struct rows *s = &t->tiles.rows;
    const struct weft__attention_plane *k = &s->call->k;
    for (int j = i * 16; j < (i + 1) * 16; j++) {
        const uint16_t *from = (const uint16_t *)(const void *)k->data + s->at[j];
        __m512i largest = _mm512_setzero_si512();
        for (int32_t c = 0; c < k->dim; c += GROUP) {
            const struct parts parts =
                parts_of_f16(load_sixteen(from + c), load_sixteen(from + c + 16));
            largest = largest_f16(largest, from + c);
            _mm512_storeu_si512(t->staged + j % 16 * k->dim + c, parts.most);
            _mm512_storeu_si512(t->staged_rest + j % 16 * k->dim + c, parts.rest);
        }
        t->tiles.wild_keys |= (uint64_t)is_wild_f16(largest) << j;
    }
}

static void gather_slot(struct strips *t)
{
    const int64_t dim = t->tiles.rows.call->k.dim, steps = dim / GROUP;
    for (int i = 0; i < SIXTEENS; i++) {
        const int64_t to = place_of_sixteen(t, i);
        ask_rows(&t->tiles, 16);
        widen_sixteen(t, i);
        turn_keys(t->staged, dim, steps, t->tiles.keys + to, NULL);
        turn_keys(t->staged_rest, dim, steps, t->tiles.keys_rest + to, NULL);
    }
    gather_values_f16(&t->tiles, t->slots * HALVES * t->tiles.value_half);
}

INLINE void score_strip(const struct strips *t, struct item item, int32_t turn,
                        struct pending *beside)
{
    const int32_t strip = item.strip, slot = item.slot, sixteens = item.sixteens;
    const struct rows *s = &t->tiles.rows;
    const int64_t steps = s->call->k.dim / GROUP, next = steps * TILE_NUMBERS;
    const uint16_t *k = t->tiles.keys + slot * SIXTEENS * next;
    const uint16_t *k_rest = t->tiles.keys_rest + slot * SIXTEENS * next;
    float *to = s->scores + scores_at(0, turn), *below = s->scores + scores_at(1, turn);
    weigh_beside(beside, sixteens / 2 * steps);
    for (int32_t j = 0; j < sixteens; j += 2) {
        const uint16_t *q = t->q + strip * 2 * next, *q_rest = t->q_rest + strip * 2 * next;
        SQUARE_BEGIN();
        for (int64_t i = 0; i < steps; i++) {
            LOAD_ROWS(q, q + next);
            LOAD_COLUMNS(k, k + TILE_NUMBERS);
            DOT_SQUARE();
            LOAD_COLUMNS(k_rest, k_rest + TILE_NUMBERS);
            DOT_SQUARE();
            LOAD_ROWS(q_rest, q_rest + next);
            DOT_SQUARE();
            LOAD_COLUMNS(k, k + TILE_NUMBERS);
            DOT_SQUARE();
            weigh_due(t, beside, true);
            q += TILE_NUMBERS, q_rest += TILE_NUMBERS;
            k += 2 * TILE_NUMBERS, k_rest += 2 * TILE_NUMBERS;
        }
        SQUARE_STORE(to + j * TILE_SUMS, below + j * TILE_SUMS);
    }
    tiles_written();
    if (t->tiles.wild_queries || t->wild_keys[slot])
        score_wild_strip(t, strip, slot, turn);
}

static __attribute__((noinline)) void add_strip(const struct strips *t, int32_t strip,
                                                int32_t begin, int32_t end)
{
    const struct rows *s = &t->tiles.rows;
    const int64_t pairs = s->call->v.dim / GROUP, half = MOST_HALVES * TILE_NUMBERS;
    const int64_t first = begin * 2 * TILE_NUMBERS;
    float *acc = sums_of(s, 2 * strip), *next = sums_of(s, 2 * strip + 1);
    const bool begun = t->begun[strip];
    for (int64_t c = 0; c < pairs; c++, acc += 2 * TILE_SUMS, next += 2 * TILE_SUMS) {
        const uint16_t *v = t->tiles.values + c * t->tiles.value_pair + first;
        const uint16_t *v_rest = t->tiles.values_rest + c * t->tiles.value_pair + first;
        SQUARE_LOAD(acc, next);
        for (int64_t h = begin; h < end; h++) {
            const uint16_t *w = t->tiles.weights + h * TILE_NUMBERS;
            const uint16_t *w_rest = t->tiles.weights_rest + h * TILE_NUMBERS;
            LOAD_ROWS(w, w + half);
            LOAD_COLUMNS(v_rest, v_rest + TILE_NUMBERS);
            DOT_SQUARE();
            LOAD_COLUMNS(v, v + TILE_NUMBERS);
            DOT_SQUARE();
            LOAD_ROWS(w_rest, w_rest + half);
            DOT_SQUARE();
            v += 2 * TILE_NUMBERS, v_rest += 2 * TILE_NUMBERS;
        }
        SQUARE_STORE(acc, next);
    }
    t->begun[strip] = true;
}

enum { F16_F32_ROWS = WEFT__ATTENTION_FEW_ROWS };

// Few rows are as fast in f32 as memory; soft-caps, ALiBi and heads that are no multiples of 32 are served there, too.
static bool on_tiles(const struct weft__attention_call *call,
                     const struct weft__attention_tile *tile)
{
    return weft__attention_rows(call, tile) > F16_F32_ROWS && call->k.dim % GROUP == 0 &&
           call->v.dim % GROUP == 0 && call->softcap <= 0 && !call->alibi_slopes &&
           tile->key0 < tile->key1;
}

static int32_t attend_on_tiles(const struct weft__attention_call *call,
                               const struct weft__attention_tile *tiles, int32_t count)
{
    if (weft__attention_rows(call, tiles) <= LANES)
        return weft__attention_few_on_tiles(call, tiles, count);
    count = alike(call, tiles, count);
    tiles_begin(16);
    attend_strips(call, tiles, count, (struct strip_products){gather_slot, score_strip, add_strip},
                  true);
    tiles_end();
    return count;
}

void weft__attention_F16_amx(const struct weft__attention_call *call,
                             const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t n, i = 0; i < count; i += n) {
        const bool tiled = on_tiles(call, &tiles[i]);
        for (n = 1; i + n < count && on_tiles(call, &tiles[i + n]) == tiled;)
            n++;
        if (tiled)
            n = attend_on_tiles(call, tiles + i, n);
        else
            weft__attention_F16_avx512(call, tiles + i, n);
    }
}
