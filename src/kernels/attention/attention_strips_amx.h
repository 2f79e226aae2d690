// SPDX-License-Identifier: MIT
// Attention of many rows (prompts) on the tiles of AMX: what is kept for strips of 32 rows, and what a block of keys
// becomes. Up to SLOTS blocks of keys of a tile are laid out for the products once, for all of its strips; a strip's
// scores and weights against all of them stay near.
//
//      score[32 rows][keys]     =  q[32 rows][elements] * key[pairs of elements][keys]
//      acc[32 rows][columns]   +=  weight[32 rows][keys] * value[pairs of keys][columns]
//
// Both products are squares of two tiles by two: four tiles are loaded for four products. Rows of scores lie as rows
// of weights do, so that only keys are turned, once for all strips.
//
//      q       [sixteen of rows][32 elements][16 rows][32]
//      keys    [two sixteens of keys][32 elements][sixteen][16 pairs of elements][16 keys][2]
//      values  [32 columns][32 keys][16 of the columns][16 pairs of keys][16][2]
//      scores  [turn % 2][sixteen of the strip][sixteen of the slot][16 rows][16]    f32
//      weights [sixteen of the strip][32 keys][16 rows][32]               keys in the order of word_place()
//      acc     [sixteen of rows][16 columns][16 rows][16]                 f32
#ifndef WEFT_KERNELS_ATTENTION_STRIPS_AMX_H
#define WEFT_KERNELS_ATTENTION_STRIPS_AMX_H

#include "src/kernels/attention/attention_tiles_rows_amx.h"

enum {
    STRIP = 2 * LANES,
    SLOTS = 4,
    MOST_KEYS = SLOTS * BLOCK,
    MOST_HALVES = MOST_KEYS / 32,
};

// Squares of two tiles of sums by two: 0 and 1 are the upper ones. Each pair of tiles lies together.
#define SQUARE_BEGIN()                                                                             \
    do {                                                                                           \
        tile_zero(0);                                                                              \
        tile_zero(1);                                                                              \
        tile_zero(2);                                                                              \
        tile_zero(3);                                                                              \
    } while (0)
#define SQUARE_LOAD(upper, lower)                                                                  \
    do {                                                                                           \
        BEGIN_AT(0, upper);                                                                        \
        BEGIN_AT(1, (upper) + TILE_SUMS);                                                          \
        BEGIN_AT(2, lower);                                                                        \
        BEGIN_AT(3, (lower) + TILE_SUMS);                                                          \
    } while (0)
#define SQUARE_STORE(upper, lower)                                                                 \
    do {                                                                                           \
        tile_store(0, upper);                                                                      \
        tile_store(1, (upper) + TILE_SUMS);                                                        \
        tile_store(2, lower);                                                                      \
        tile_store(3, (lower) + TILE_SUMS);                                                        \
    } while (0)
// Rows and columns of the next square are loaded, the sums of the last one stored, and the next ones begun: each tile by
// itself, so that the others go on meanwhile.
#define SQUARE_TURN(upper, lower, begin, next_upper, next_lower, rows, more, left, right)          \
    do {                                                                                           \
        tile_load(4, rows, TILE_ROW_BYTES);                                                        \
        tile_load_once(6, left, TILE_ROW_BYTES);                                                   \
        tile_store(0, upper);                                                                      \
        begin(0, next_upper);                                                                      \
        tile_dot_bf16(0, 4, 6);                                                                    \
        tile_load_once(7, right, TILE_ROW_BYTES);                                                  \
        tile_store(1, (upper) + TILE_SUMS);                                                        \
        begin(1, (next_upper) + TILE_SUMS);                                                        \
        tile_dot_bf16(1, 4, 7);                                                                    \
        tile_load(5, more, TILE_ROW_BYTES);                                                        \
        tile_store(2, lower);                                                                      \
        begin(2, next_lower);                                                                      \
        tile_dot_bf16(2, 5, 6);                                                                    \
        tile_store(3, (lower) + TILE_SUMS);                                                        \
        begin(3, (next_lower) + TILE_SUMS);                                                        \
        tile_dot_bf16(3, 5, 7);                                                                    \
    } while (0)
#define BEGIN_AT_ZERO(tile, at) tile_zero(tile)
// Sums of a strip that has none are 0.
#define BEGIN_AT(tile, at)                                                                         \
    do {                                                                                           \
        if (begun)                                                                                 \
            tile_load(tile, at, TILE_ROW_BYTES);                                                   \
        else                                                                                       \
            tile_zero(tile);                                                                       \
    } while (0)
#define LOAD_ROWS(upper, lower)                                                                    \
    do {                                                                                           \
        tile_load(4, upper, TILE_ROW_BYTES);                                                       \
        tile_load(5, lower, TILE_ROW_BYTES);                                                       \
    } while (0)
#define LOAD_COLUMNS(left, right)                                                                  \
    do {                                                                                           \
        tile_load_once(6, left, TILE_ROW_BYTES);                                                   \
        tile_load_once(7, right, TILE_ROW_BYTES);                                                  \
    } while (0)
#define DOT_SQUARE()                                                                               \
    do {                                                                                           \
        tile_dot_bf16(0, 4, 6);                                                                    \
        tile_dot_bf16(1, 4, 7);                                                                    \
        tile_dot_bf16(2, 5, 6);                                                                    \
        tile_dot_bf16(3, 5, 7);                                                                    \
    } while (0)

// A row of keys, values, queries or results that is asked for ahead.
struct asked {
    const char *row;
    int64_t lines;
};

struct strips {
    struct tiles tiles; // of which rows.scores, rows.weight and rows.q are not used
    uint16_t *q, *q_rest;
    uint16_t *staged, *staged_rest; // [16 keys][elements] on their way
    float *sums;    // of weights of a strip: [2][sixteen][16 rows][16 times the same]
    uint64_t *seen; // [slot][row]
    float *base;    // [row]: weights and their sums are 2^(score - base); -infinity: there are none
    // Weights are words, 2^(score - base - WORDS_BELOW), and `sum` has the sums of what is multiplied. LSEs
    // are the logarithms of `exact`.
    bool words;
    float *exact;                   // [row]
    bool tame_queries, tame[SLOTS]; // no element is so large that a score may be infinite or none
    int64_t *key_places, *value_places; // [slot][BLOCK], where one of them is wild
    int32_t slots;                      // blocks that are laid out
    bool *begun; // [strip]: it has sums; else they are 0, whatever lies there
    uint64_t by_all[SLOTS], wild[SLOTS], wild_keys[SLOTS];
    int32_t block_keys[SLOTS];
    // What the next slots read, and the tile's end: asked for beside the products of these.
    struct asked *asked;
    int32_t asks;
    int64_t *ahead, *values_ahead; // places, behind an element of their own
};

INLINE int32_t strips_of(int32_t rows)
{
    return (rows + STRIP - 1) / STRIP;
}

// Where the scores of sixteen rows against a slot lie, by turns, and their weights.
INLINE int64_t scores_at(int32_t b, int32_t turn)
{
    return ((turn & 1) * 2 + (b & 1)) * (SIXTEENS * TILE_SUMS);
}

INLINE int64_t weights_at(int32_t b, int32_t slot)
{
    return (b % 2 * MOST_HALVES + slot * HALVES) * TILE_NUMBERS;
}

// Takes `bytes` of the scratch, whole lines; only counts them if it is NULL.
static char *take_lines(char *scratch, int64_t *taken, int64_t bytes)
{
    char *at = scratch ? scratch + *taken : NULL;
    *taken += (bytes + 63) / 64 * 64;
    return at;
}

// Divides the scratch. Returns the bytes.
static int64_t divide_strips(struct strips *t, char *scratch, int32_t rows, int32_t dim,
                             int32_t v_dim)
{
    struct rows *s = &t->tiles.rows;
    const int64_t padded = (int64_t)strips_of(rows) * STRIP, half = sizeof(uint16_t);
    const int64_t k = (dim + GROUP - 1) / GROUP * GROUP, v = (v_dim + GROUP - 1) / GROUP * GROUP;
    int64_t n = 0;
#define TAKE(bytes) ((void *)take_lines(scratch, &n, (int64_t)(bytes)))
    s->scores = TAKE(2 * STRIP * BLOCK * 4);
    t->tiles.weights = TAKE(STRIP * MOST_KEYS * half);
    t->tiles.weights_rest = TAKE(STRIP * MOST_KEYS * half);
    t->q = TAKE(padded * k * half);
    t->q_rest = TAKE(padded * k * half);
    t->tiles.keys = TAKE(MOST_KEYS * k * half);
    t->tiles.keys_rest = TAKE(MOST_KEYS * k * half);
    t->tiles.values = TAKE(MOST_KEYS * v * half);
    t->tiles.values_rest = TAKE(MOST_KEYS * v * half);
    t->staged = TAKE(LANES * k * half);
    t->staged_rest = TAKE(LANES * k * half);
    s->acc = TAKE(padded * v * 4);
    s->row = TAKE(v * 4);
    s->largest = TAKE(padded * 4);
    t->base = TAKE(padded * 4);
    s->sum = TAKE(padded * 4);
    t->exact = TAKE(padded * 4);
    t->begun = TAKE(padded / STRIP * (int64_t)sizeof *t->begun);
    t->sums = TAKE(2 * 2 * TILE_SUMS * 4);
    s->shrink = TAKE(padded * 4);
    s->key_scale = TAKE(MOST_KEYS * 4);
    s->value_scale = TAKE(MOST_KEYS * 4);
    t->seen = TAKE(SLOTS * padded * 8);
    t->key_places = TAKE(MOST_KEYS * 8);
    t->value_places = TAKE(MOST_KEYS * 8);
    s->at = TAKE(PLACES * 8);
    s->values_at = TAKE(PLACES * 8);
    t->asked = TAKE((2 * MOST_KEYS + 2 * padded) * (int64_t)sizeof *t->asked);
    t->ahead = TAKE((BLOCK + 8) * 8);
    t->values_ahead = TAKE((BLOCK + 8) * 8);
#undef TAKE
    return n;
}

static inline int64_t bytes_of_strips(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    struct strips t;
    return divide_strips(&t, NULL, rows, head_dim, v_dim);
}

static struct strips lay_out_strips(const struct weft__attention_call *call,
                                    const struct weft__attention_tile *tile)
{
    const struct weft__attention_plane *k = &call->k, *v = &call->v;
    struct strips t = {.slots = 0};
    struct rows *s = &t.tiles.rows;
    s->call = call;
    s->rows = weft__attention_rows(call, tile);
    divide_strips(&t, (char *)tile->scratch, s->rows, k->dim, v->dim);
    s->blocks = 2 * strips_of(s->rows);
    s->columns = GROUP;
    s->groups = v->dim / GROUP;
    s->pairs = k->dim / 2;
    s->scaled = k->scales || v->scales;
    if (k->page_stride == v->page_stride && k->head_stride == v->head_stride &&
        k->token_stride == v->token_stride)
        s->values_at = s->at;
    if (is_code(k->dtype))
        t.tiles.table = code_table_of(k->dtype);
    if (!call->lse)
        t.exact = NULL;
    t.tiles.eager = true;
    t.tiles.value_half = 2 * TILE_NUMBERS;
    t.tiles.value_pair = MOST_HALVES * 2 * TILE_NUMBERS;
    return t;
}

// The larger of earlier numbers of bf16 and 32 more, signs apart.
INLINE __m512i largest_bf16(__m512i largest, __m512i x)
{
    return _mm512_max_epu16(largest, _mm512_and_si512(_mm512_set1_epi16(0x7fff), x));
}

// Products of these are below 2^110.
INLINE bool is_tame(__m512i largest)
{
    return _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16((127 + 55) << 7)) == 0;
}

// Where a query lies that needs no conversion.
INLINE const uint16_t *query_at(const struct rows *s, int32_t row)
{
    const struct weft__attention_call *call = s->call;
    const int64_t token =
        call->lengths.cu_q_lens[s->tile->seq] + (int64_t)weft__attention_token(call, s->tile, row);
    return (const uint16_t *)call->q + token * call->q_token_stride +
           weft__attention_head(call, s->tile, row) * call->q_head_stride;
}

INLINE void ask_row(struct strips *t, const char *row, int64_t bytes)
{
    t->asked[t->asks++] = (struct asked){row, (bytes + 63) / 64};
}

// Notes the rows of a block, whose places are at[].
static void note_block(struct strips *t, const int64_t *at, const int64_t *values_at, int32_t n)
{
    const struct weft__attention_call *call = t->tiles.rows.call;
    const int64_t size = is_code(call->k.dtype) ? 1 : 2;
    for (int32_t i = 0; i < n; i++)
        ask_row(t, call->k.data + size * at[i], size * call->k.dim);
    for (int32_t i = 0; i < n; i++)
        ask_row(t, call->v.data + size * values_at[i], size * call->v.dim);
}

// And the results of this tile's rows, and the queries of the next one's.
static void note_rows(struct strips *t, const struct weft__attention_tile *next)
{
    const struct rows *s = &t->tiles.rows;
    const struct weft__attention_call *call = s->call;
    const int64_t q_size = call->q_dtype == WEFT_F32 ? 4 : call->q_scales ? 1 : 2;
    const int64_t out_size = call->out_dtype == WEFT_F32 ? 4 : 2;
    const int32_t *first = call->lengths.cu_q_lens;
    for (int32_t r = 0; r < s->rows && !s->tile->partial; r++) {
        const int64_t token =
            first[s->tile->seq] + (int64_t)weft__attention_token(call, s->tile, r);
        const int64_t head = weft__attention_head(call, s->tile, r);
        ask_row(t,
                (const char *)call->out +
                    out_size * (token * call->out_token_stride + head * call->out_head_stride),
                out_size * call->v.dim);
    }
    for (int32_t r = 0; next && r < s->rows && !same_rows(s->tile, next); r++) {
        const int64_t token = first[next->seq] + (int64_t)weft__attention_token(call, next, r);
        const int64_t head = weft__attention_head(call, next, r);
        ask_row(t,
                (const char *)call->q +
                    q_size * (token * call->q_token_stride + head * call->q_head_stride),
                q_size * call->k.dim);
    }
}

// What is read after the slots at hand.
static void note_ahead(struct strips *t, const struct blocks *blocks)
{
    const struct rows *s = &t->tiles.rows;
    struct walk walk = blocks->walk; // goes on elsewhere
    struct block block = blocks->after;
    const bool alike = s->values_at == s->at;
    int64_t *at = t->ahead + 8, *values_at = alike ? at : t->values_ahead + 8;
    t->asks = 0;
    if (!s->call->ahead)
        return;
    note_block(t, s->at + BLOCK, s->values_at + BLOCK, block.n);
    at[-1] = values_at[-1] = 0;
    for (int32_t i = 1; i < SLOTS && block.n > 0; i++) {
        block = next_block(s->call, &walk, at, alike ? NULL : values_at);
        note_block(t, at, values_at, block.n);
    }
    if (ends_tile(s->block))
        note_rows(t, blocks->after.n > 0 ? blocks->after.tile : NULL);
}

// The two parts of a query of f16. Returns whether it has infinities or NaNs.
INLINE bool divide_f16(const uint16_t *from, int32_t dim, uint16_t *most, uint16_t *rest)
{
    __mmask32 wild = 0;
    for (int32_t i = 0; i < dim; i += GROUP) {
        const __m512i x = _mm512_loadu_si512(from + i);
        const struct parts parts =
            parts_of_f16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
        wild |= wild_f16(x);
        _mm512_storeu_si512(most + i, parts.most);
        _mm512_storeu_si512(rest + i, parts.rest);
    }
    return wild != 0;
}

// Queries, negated where the scale is: it is positive for the softmax.
static void take_strip_queries(struct strips *t)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t dim = s->call->k.dim, steps = dim / GROUP;
    const bool two = s->call->k.dtype == WEFT_F16;
    const bool plain = s->call->q_dtype == (two ? WEFT_F16 : WEFT_BF16) && !s->call->q_scales;
    const __m512i sign = _mm512_set1_epi16(s->call->scale < 0 ? (short)0x8000 : 0);
    __m512i largest = _mm512_setzero_si512();
    t->tiles.wild_queries = false;
    for (int32_t r = 0; r < s->blocks * LANES; r++) {
        const bool own = r < s->rows;
        const uint16_t *most = t->staged, *rest = t->staged_rest;
        float wide[WEFT__ATTENTION_MAX_DIM];
        if (own && !plain)
            weft__attention_query(s->call, s->tile, r, wide);
        if (own && two)
            t->tiles.wild_queries |=
                plain ? divide_f16(query_at(s, r), dim, t->staged, t->staged_rest)
                      : divide_query(wide, dim, t->staged, t->staged_rest);
        else if (own && plain)
            most = query_at(s, r);
        else if (own)
            round_query(wide, dim, t->staged);
        for (int32_t i = 0; i < steps; i++) {
            const int64_t to = (((int64_t)(r / LANES) * steps + i) * LANES + r % LANES) * GROUP;
            const __m512i x = _mm512_xor_si512(sign, _mm512_loadu_si512(most + i * GROUP));
            const __m512i y = _mm512_xor_si512(sign, _mm512_loadu_si512(rest + i * GROUP));
            _mm512_storeu_si512(t->q + to, own ? x : _mm512_setzero_si512());
            if (own && !two)
                largest = largest_bf16(largest, x);
            if (two)
                _mm512_storeu_si512(t->q_rest + to, own ? y : _mm512_setzero_si512());
        }
    }
    t->tame_queries = is_tame(largest);
}

// Sixteen keys, from[key][stride], to tiles of pairs of elements. Their largest elements join `largest`, if it is not NULL.
INLINE void turn_keys(const uint16_t *from, int64_t stride, int64_t steps, uint16_t *to,
                      __m512i *largest)
{
    for (int64_t i = 0; i < steps; i++, from += GROUP, to += 2 * TILE_NUMBERS) {
        vf32 turned[LANES];
        vf32_load_transposed((const float *)(const void *)from, stride / 2, turned);
        VF32_UNROLL
        for (int n = 0; n < LANES; n++) {
            vf32_store((float *)(void *)(to + n * GROUP), turned[n]);
            if (largest)
                *largest = largest_bf16(*largest, _mm512_castps_si512(turned[n]));
        }
    }
}

// Where the tiles of sixteen keys of this slot begin.
INLINE int64_t place_of_sixteen(const struct strips *t, int i)
{
    const int64_t steps = t->tiles.rows.call->k.dim / GROUP;
    const int sixteen = t->slots * SIXTEENS + i;
    return (sixteen / 2 * steps * 2 + sixteen % 2) * TILE_NUMBERS;
}

INLINE void gather_strip_keys(struct strips *t, weft_dtype kv)
{
    const struct rows *s = &t->tiles.rows;
    const struct weft__attention_plane *k = &s->call->k;
    const int64_t steps = k->dim / GROUP;
    __m512i largest = _mm512_setzero_si512();
    for (int i = 0; i < SIXTEENS; i++) {
        const int64_t *at = s->at + i * 16;
        const uint16_t *from = t->staged;
        int64_t stride = k->dim;
        ask_rows(&t->tiles, 16);
        if (!is_code(kv) && in_a_row(at, k->token_stride)) {
            from = (const uint16_t *)(const void *)k->data + at[0];
            stride = k->token_stride;
        } else
            for (int j = 0; j < LANES; j++)
                for (int32_t c = 0; c < steps; c += 2) {
                    __m512i x[2];
                    load_row(&t->tiles, kv, k, at[j], c * GROUP, x);
                    _mm512_storeu_si512(t->staged + j * k->dim + c * GROUP, x[0]);
                    if (c + 1 < steps)
                        _mm512_storeu_si512(t->staged + j * k->dim + (c + 1) * GROUP, x[1]);
                }
        turn_keys(from, stride, steps, t->tiles.keys + place_of_sixteen(t, i), &largest);
    }
    t->tame[t->slots] = t->tame_queries && is_tame(largest);
}

// The block at hand becomes a slot. gather_it(): its keys and values. Those of values that are wild are kept in mind.
INLINE void take_slot(struct strips *t, void (*gather_it)(struct strips *t))
{
    struct rows *s = &t->tiles.rows;
    const int32_t slot = t->slots;
    t->tiles.wild_keys = 0;
    gather_it(t);
    t->by_all[slot] = s->by_all;
    t->wild[slot] = t->tiles.wild;
    t->wild_keys[slot] = t->tiles.wild_keys;
    t->block_keys[slot] = s->block->n;
    if (t->tiles.wild || t->tiles.wild_keys || t->tiles.wild_queries) {
        memcpy(t->key_places + slot * BLOCK, s->at, BLOCK * sizeof *s->at);
        memcpy(t->value_places + slot * BLOCK, s->values_at, BLOCK * sizeof *s->values_at);
    }
    if (s->scaled) {
        const struct weft__attention_call *call = s->call;
        const float scale = fabsf(call->scale) * LOG2E;
        gather_scales(call, s->tile, &call->k, s->block->first, s->block->n, scale,
                      s->key_scale + slot * BLOCK);
        gather_scales(call, s->tile, &call->v, s->block->first, s->block->n, 1,
                      s->value_scale + slot * BLOCK);
    }
    count_block(s, s->by_all != ~UINT64_C(0) || s->call->generic);
    t->slots++;
}

#endif
