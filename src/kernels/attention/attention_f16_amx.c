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
#include "src/kernels/attention/attention_few_f16_amx.h"
#include "src/kernels/attention/attention_strips_rows_amx.h"

weft__attention_fn weft__attention_F16_amx, weft__attention_F16_avx512;

// The larger of earlier numbers and 32 of f16, signs apart: above the largest finite one if some are infinite or none.
INLINE __m512i largest_f16(__m512i largest, const uint16_t *x)
{
    return _mm512_max_epu16(largest,
                            _mm512_and_si512(_mm512_set1_epi16(0x7fff), _mm512_loadu_si512(x)));
}

INLINE bool is_wild_f16(__m512i largest)
{
    return _mm512_cmpgt_epu16_mask(largest, _mm512_set1_epi16(0x7bff)) != 0;
}

INLINE __m256i load_sixteen(const uint16_t *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

// Of 32 elements of a key, each of the first 16 lies beside one of the others, as those of queries do.
static void gather_keys_f16(struct tiles *t)
{
    const struct rows *s = &t->rows;
    const struct weft__attention_plane *k = &s->call->k;
    const int64_t steps = k->dim / GROUP;
    t->wild_keys = 0;
    for (int32_t j = 0; j < BLOCK; j++) {
        const uint16_t *from = (const uint16_t *)(const void *)k->data + s->at[j];
        const int64_t to = j / 16 * steps * TILE_NUMBERS + j % 16 * 32;
        __m512i largest = _mm512_setzero_si512();
        ask_rows(t, t->eager || j % 2);
        for (int64_t i = 0; i < steps; i++, from += GROUP) {
            const struct parts parts = parts_of_f16(load_sixteen(from), load_sixteen(from + 16));
            largest = largest_f16(largest, from);
            _mm512_storeu_si512(t->keys + to + i * TILE_NUMBERS, parts.most);
            _mm512_storeu_si512(t->keys_rest + to + i * TILE_NUMBERS, parts.rest);
        }
        t->wild_keys |= (uint64_t)is_wild_f16(largest) << j;
    }
}

// Sixteen elements, zeros for those that add_wild() adds.
INLINE __m256i tame_sixteen(const uint16_t *x)
{
    const __m256i exponent = _mm256_set1_epi16(0x7c00), v = load_sixteen(x);
    return _mm256_maskz_mov_epi16(_mm256_cmpneq_epi16_mask(_mm256_and_si256(v, exponent), exponent),
                                  v);
}

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

// The values of the block from element `start` of the tiles on; a pair is of keys that are next to each other, or 16 apart.
INLINE void gather_values_f16(struct tiles *t, int64_t start, const bool apart)
{
    const struct rows *s = &t->rows;
    const uint16_t *from = (const uint16_t *)(const void *)s->call->v.data;
    t->wild = 0;
    for (int32_t pair = 0; pair < PAIRS; pair++) {
        const int32_t first = apart ? pair / 16 * 32 + pair % 16 : 2 * pair;
        const int32_t second = first + (apart ? 16 : 1);
        const uint16_t *a = from + s->values_at[first], *b = from + s->values_at[second];
        const int64_t to = start + pair / 16 * t->value_half + pair % 16 * 32;
        ask_rows(t, t->eager ? 2 : 1);
        if (is_wild_f16(gather_pair(t, a, b, to, false)))
            gather_wild_pair(t, first, second, a, b, to);
    }
}

// Tile `sum` of scores: 32 elements of 16 keys, whose parts lie at most and rest, by queries, whose parts are in 6 and 7.
#define ADD_KEYS(sum, most, rest)                                                                  \
    do {                                                                                           \
        tile_load(4, most, TILE_ROW_BYTES);                                                        \
        tile_dot_bf16(sum, 4, 6);                                                                  \
        tile_load(5, rest, TILE_ROW_BYTES);                                                        \
        tile_dot_bf16(sum, 5, 6);                                                                  \
        tile_dot_bf16(sum, 4, 7);                                                                  \
        tile_dot_bf16(sum, 5, 7);                                                                  \
    } while (0)

static void score(struct tiles *t, int32_t b)
{
    const struct rows *s = &t->rows;
    const int64_t steps = s->call->k.dim / GROUP, next = steps * TILE_NUMBERS;
    const int64_t at = (int64_t)b * s->pairs * LANES;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (int64_t i = 0; i < steps; i++) {
        const uint16_t *most = t->keys + i * TILE_NUMBERS, *rest = t->keys_rest + i * TILE_NUMBERS;
        ask_rows(t, ASK_ROWS);
        tile_load(6, s->q + at + i * TILE_SUMS, TILE_ROW_BYTES);
        tile_load(7, t->q_rest + at + i * TILE_SUMS, TILE_ROW_BYTES);
        ADD_KEYS(0, most, rest);
        ADD_KEYS(1, most + next, rest + next);
        ADD_KEYS(2, most + 2 * next, rest + 2 * next);
        ADD_KEYS(3, most + 3 * next, rest + 3 * next);
    }
    tile_store(0, s->scores);
    tile_store(1, s->scores + TILE_SUMS);
    tile_store(2, s->scores + 2 * TILE_SUMS);
    tile_store(3, s->scores + 3 * TILE_SUMS);
}

// A score that has to do with infinities or NaNs: 0 times one of them is what it is, but a part that is 0 is not what the
// number is.
static float score_one(const struct rows *s, const float *q, int64_t at)
{
    const struct weft__attention_plane *k = &s->call->k;
    const uint16_t *x = (const uint16_t *)(const void *)k->data + at;
    double sum = 0;
    for (int32_t i = 0; i < k->dim; i++)
        sum += (double)weft__f16_to_f32(weft__f16_from_f32(q[i])) * weft__f16_to_f32(x[i]);
    return (float)sum;
}

static __attribute__((noinline)) void score_wild(const struct tiles *t, int32_t b)
{
    const struct rows *s = &t->rows;
    const int32_t end = s->rows - b * LANES < LANES ? s->rows - b * LANES : LANES;
    for (int32_t r = 0; r < end; r++) {
        float q[WEFT__ATTENTION_MAX_DIM];
        weft__attention_query(s->call, s->tile, b * LANES + r, q);
        for (int32_t key = 0; key < BLOCK; key++)
            if (t->wild_queries || t->wild_keys >> key & 1)
                s->scores[key * LANES + r] = score_one(s, q, s->at[key]);
    }
}

static __attribute__((noinline)) void score_wild_strip(const struct strips *t, int32_t strip,
                                                       int32_t slot)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    for (int32_t r = strip * STRIP; r < end; r++) {
        float q[WEFT__ATTENTION_MAX_DIM];
        float *scores = s->scores + scores_at(r / LANES, slot) + r % LANES * LANES;
        weft__attention_query(s->call, s->tile, r, q);
        for (int32_t i = 0; s->call->scale < 0 && i < s->call->k.dim; i++)
            q[i] = -q[i];
        for (int32_t key = 0; key < BLOCK; key++)
            if (t->tiles.wild_queries || t->wild_keys[slot] >> key & 1)
                scores[key / 16 * TILE_SUMS + key % 16] =
                    score_one(s, q, t->key_places[slot * BLOCK + key]);
    }
}

// Tile `sum` of results: weights of 32 keys, whose parts are in 4 and 5, by 16 columns of their values.
#define ADD_VALUES(sum, most, rest)                                                                \
    do {                                                                                           \
        tile_load(6, most, TILE_ROW_BYTES);                                                        \
        tile_dot_bf16(sum, 4, 6);                                                                  \
        tile_load(7, rest, TILE_ROW_BYTES);                                                        \
        tile_dot_bf16(sum, 5, 6);                                                                  \
        tile_dot_bf16(sum, 4, 7);                                                                  \
    } while (0)

// acc[columns] of as many tiles from column `i` on, of which there are VALUE_TILES or 2.
INLINE void add_columns(const struct tiles *t, float *acc, int64_t i, const bool all)
{
    const int64_t half = t->rows.call->v.dim / 16 * TILE_NUMBERS;
    tile_load(0, acc, TILE_ROW_BYTES);
    tile_load(1, acc + TILE_SUMS, TILE_ROW_BYTES);
    if (all) {
        tile_load(2, acc + 2 * TILE_SUMS, TILE_ROW_BYTES);
        tile_load(3, acc + 3 * TILE_SUMS, TILE_ROW_BYTES);
    }
    for (int h = 0; h < HALVES; h++) {
        const uint16_t *most = t->values + i * TILE_NUMBERS + h * half;
        const uint16_t *rest = t->values_rest + i * TILE_NUMBERS + h * half;
        tile_load(4, t->weights + h * TILE_NUMBERS, TILE_ROW_BYTES);
        tile_load(5, t->weights_rest + h * TILE_NUMBERS, TILE_ROW_BYTES);
        ADD_VALUES(0, most, rest);
        ADD_VALUES(1, most + TILE_NUMBERS, rest + TILE_NUMBERS);
        if (all) {
            ADD_VALUES(2, most + 2 * TILE_NUMBERS, rest + 2 * TILE_NUMBERS);
            ADD_VALUES(3, most + 3 * TILE_NUMBERS, rest + 3 * TILE_NUMBERS);
        }
    }
    tile_store(0, acc);
    tile_store(1, acc + TILE_SUMS);
    if (all) {
        tile_store(2, acc + 2 * TILE_SUMS);
        tile_store(3, acc + 3 * TILE_SUMS);
    }
}

static void add_values(struct tiles *t, int32_t b)
{
    const int64_t columns = t->rows.call->v.dim / 16;
    float *acc = sums_of(&t->rows, b);
    int64_t i = 0;
    for (; i + VALUE_TILES <= columns; i += VALUE_TILES) {
        ask_rows(t, 2 * ASK_ROWS);
        add_columns(t, acc + i * TILE_SUMS, i, true);
    }
    if (i < columns)
        add_columns(t, acc + i * TILE_SUMS, i, false);
}

static void attend_block(struct tiles *t)
{
    const struct rows *s = &t->rows;
    const bool mask = s->by_all != ~UINT64_C(0) || s->call->generic;
    const float scale = s->call->scale * LOG2E;
    gather_keys_f16(t);
    for (int32_t b = 0; b < s->blocks; b++) {
        score(t, b);
        if (t->wild_keys || t->wild_queries)
            score_wild(t, b);
        if (mask)
            weigh(t, b, scale, true, t->weight_rest);
        else
            weigh(t, b, scale, false, t->weight_rest);
        turn_weights(s->weight, t->weights);
        turn_weights(t->weight_rest, t->weights_rest);
        // Keys and values in parts are more than the first cache holds.
        gather_values_f16(t, 0, false);
        shrink_sums(s, b);
        add_values(t, b);
        if (t->wild)
            add_wild(t, b);
    }
    ask_rows(t, ALL_ROWS);
    count_block(s, mask);
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
        turn_keys(t->staged, dim, steps, t->tiles.keys + to);
        turn_keys(t->staged_rest, dim, steps, t->tiles.keys_rest + to);
    }
    gather_values_f16(&t->tiles, t->slots * HALVES * t->tiles.value_half, true);
}

INLINE void score_strip(const struct strips *t, int32_t strip, int32_t slot, int32_t sixteens,
                        struct pending *beside)
{
    const struct rows *s = &t->tiles.rows;
    const int64_t steps = s->call->k.dim / GROUP, next = steps * TILE_NUMBERS;
    const uint16_t *k = t->tiles.keys + slot * SIXTEENS * next;
    const uint16_t *k_rest = t->tiles.keys_rest + slot * SIXTEENS * next;
    float *to = s->scores + scores_at(0, slot), *below = s->scores + scores_at(1, slot);
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
        score_wild_strip(t, strip, slot);
}

static __attribute__((noinline)) void add_strip(const struct strips *t, int32_t strip,
                                                int32_t begin, int32_t end)
{
    const struct rows *s = &t->tiles.rows;
    const int64_t pairs = s->call->v.dim / GROUP, half = MOST_HALVES * TILE_NUMBERS;
    const int64_t first = begin * 2 * TILE_NUMBERS;
    float *acc = sums_of(s, 2 * strip), *next = sums_of(s, 2 * strip + 1);
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
}

// Few rows read keys once, in f32; soft-caps, ALiBi and heads that are no multiples of 32 are served there, too.
static bool on_tiles(const struct weft__attention_call *call,
                     const struct weft__attention_tile *tile)
{
    return weft__attention_rows(call, tile) > WEFT__ATTENTION_FEW_ROWS &&
           call->k.dim % GROUP == 0 && call->softcap <= 0 && !call->alibi_slopes &&
           tile->key0 < tile->key1;
}

void weft__attention_F16_amx(const struct weft__attention_call *call,
                             const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t n, i = 0; i < count; i += n) {
        const bool tiled = on_tiles(call, &tiles[i]);
        for (n = 1; i + n < count && on_tiles(call, &tiles[i + n]) == tiled;)
            n++;
        if (!tiled) {
            weft__attention_F16_avx512(call, tiles + i, n);
            continue;
        }
        n = alike(call, tiles + i, n);
        tiles_begin(16);
        if (weft__attention_rows(call, tiles + i) > LANES)
            attend_strips(call, tiles + i, n,
                          (struct strip_products){gather_slot, score_strip, add_strip}, true);
        else
            attend_tiles(call, tiles + i, n, attend_block);
        tiles_end();
    }
}
