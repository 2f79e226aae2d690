// SPDX-License-Identifier: MIT
// What the tiles of AMX read of a block of keys (attention_tiles_amx.c): keys gathered from their pages as they
// lie, or widened on the way, values unpacked to pairs of keys once for all rows of the tile, queries in pairs
// of elements.
#ifndef WEFT_KERNELS_ATTENTION_TILES_AMX_H
#define WEFT_KERNELS_ATTENTION_TILES_AMX_H

#include "src/kernels/attention/attention_widen_avx512.h"
#include "src/kernels/attention/attention_words_avx512.h"
#include "src/kernels/attention/attention_work.h"
#include "src/kernels/cpu/amx.h"

enum {
    SIXTEENS = BLOCK / 16,  // of keys
    HALVES = BLOCK / 32,    // tiles of weights
    TILE_NUMBERS = 16 * 32, // bf16 of a tile
    TILE_SUMS = 16 * 16,    // f32 of a tile
};

// What a block of keys becomes. Columns of values come in the order of unpacking, those of acc too.
struct tiles {
    struct rows rows;
    struct code_table table;
    uint16_t *keys;   // [sixteen of keys][32 elements][16][32]
    uint16_t *values; // [32 keys][16 columns][16 pairs][16][2]
    int64_t value_half,
        value_pair;    // elements from 32 keys to the next, from two tiles of columns to the next
    uint16_t *weights; // [32 keys][16 rows][32]
    // Keys whose values have infinities or NaNs that some rows do not see: zeros in `values`.
    uint64_t wild;
    // Of f16, which is two parts of bf16 (attention_f16_amx.c): the second ones.
    uint16_t *keys_rest, *values_rest, *weights_rest;
    uint32_t *q_rest, *weight_rest;
    uint64_t wild_keys; // keys that have infinities or NaNs
    bool wild_queries;
    int32_t asked; // rows of the next block that have been asked for, of keys and of values
    bool eager;    // all of them are while this one is gathered
};

// Bytes behind those of the rows.
static inline int64_t bytes_of_tiles(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t numbers =
        (int64_t)BLOCK * (head_dim + v_dim * 3 / 2 + 2 * GROUP) + HALVES * TILE_NUMBERS;
    const int64_t words = PAIRS * LANES + row_blocks(rows) * LANES * (head_dim / 2);
    return 2 * numbers * (int64_t)sizeof(uint16_t) + words * (int64_t)sizeof(uint32_t);
}

weft__attention_scratch_fn weft__attention_scratch_avx512bf16;

// The scratch that rows of pairs have; the tiles lie behind it.
static int64_t bytes_of_rows(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    return (weft__attention_scratch_avx512bf16(rows, head_dim, v_dim) + 63) / 64 * 64;
}

static inline struct tiles lay_out_tiles(const struct weft__attention_call *call,
                                         const struct weft__attention_tile *tile)
{
    struct tiles t = {.rows = lay_out(call, tile)};
    if (is_code(call->k.dtype))
        t.table = code_table_of(call->k.dtype);
    t.rows.pairs = call->k.dim / 2; // queries and columns of results lie as for bf16
    t.rows.columns = GROUP;
    t.rows.groups = (int32_t)groups_of(call->v.dim, GROUP);
    t.keys = (uint16_t *)(void *)((char *)tile->scratch +
                                  bytes_of_rows(t.rows.rows, call->k.dim, call->v.dim));
    t.values = t.keys + (int64_t)BLOCK * call->k.dim;
    t.value_half = call->v.dim / 16 * TILE_NUMBERS;
    t.value_pair = 2 * TILE_NUMBERS;
    t.weights = t.values + (int64_t)BLOCK * call->v.dim;
    t.keys_rest = t.weights + HALVES * TILE_NUMBERS;
    t.values_rest = t.keys_rest + (int64_t)BLOCK * call->k.dim;
    t.weights_rest = t.values_rest + (int64_t)BLOCK * call->v.dim;
    t.weight_rest = (uint32_t *)(void *)(t.weights_rest + HALVES * TILE_NUMBERS);
    t.q_rest = t.weight_rest + PAIRS * LANES;
    return t;
}

enum { ASK_ROWS = 4, ALL_ROWS = 2 * BLOCK };

// Asks for `more` rows of the next block for the second cache, four of keys and four of values by turns: a few at a time
// through all that is done to a block, so that memory has something to do all the time.
INLINE void ask_rows(struct tiles *t, int32_t more)
{
    const struct rows *s = &t->rows;
    const int64_t size = is_code(s->call->k.dtype) ? 1 : 2;
    int32_t n = t->asked;
    const int32_t end = n + more < ALL_ROWS ? n + more : ALL_ROWS;
    for (; n < end; n++) {
        const bool value = n & ASK_ROWS;
        const struct weft__attention_plane *plane = value ? &s->call->v : &s->call->k;
        const int64_t *at = value ? s->values_at : s->at;
        const char *row =
            plane->data + size * at[BLOCK + n / (2 * ASK_ROWS) * ASK_ROWS + n % ASK_ROWS];
        for (int64_t i = 0; i < plane->dim * size; i += 2 * GROUP)
            _mm_prefetch(row + i, _MM_HINT_T1);
    }
    t->asked = end;
}

// Elements [column, column + 64) of the row at element `at` as bf16; where there are 32, the second half is of no use.
INLINE void load_row(const struct tiles *t, weft_dtype kv,
                     const struct weft__attention_plane *plane, int64_t at, int32_t column,
                     __m512i x[2])
{
    if (is_code(kv)) { // what unpacking takes apart is put beside each other first
        const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        const __m512i codes =
            _mm512_maskz_loadu_epi8(codes_from(plane->dim, column), plane->data + at + column);
        widen_codes(kv, &t->table, _mm512_permutexvar_epi64(order, codes), x);
        return;
    }
    const uint16_t *from = (const uint16_t *)(const void *)plane->data + at + column;
    x[0] = _mm512_loadu_si512(from);
    x[1] = column + GROUP < plane->dim ? _mm512_loadu_si512(from + GROUP) : x[0];
}

// 0 times a number that is none is not 0: where some row does not see the key these are left out, for add_wild().
INLINE __m512i numbers_of(struct tiles *t, int32_t key, __m512i x)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    if (t->rows.by_all >> key & 1)
        return x;
    const __mmask32 numbers = _mm512_cmpneq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    if (numbers != 0xffffffffu)
        t->wild |= UINT64_C(1) << key;
    return _mm512_maskz_mov_epi16(numbers, x);
}

// Past the block's last value, that again, which no row sees. Pairs come as pairs of weights do (word_place()).
INLINE void gather_values_to(struct tiles *t, weft_dtype kv, uint16_t *values)
{
    const struct rows *s = &t->rows;
    const int32_t dim = s->call->v.dim;
    t->wild = 0;
    for (int32_t pair = 0; pair < PAIRS; pair++) {
        uint16_t *to = values + pair / 16 * t->value_half + word_place(pair % 16 * 2) / 2 * 32;
        ask_rows(t, t->eager || !is_code(kv) ? 2 : 1);
        for (int32_t i = 0; i < dim; i += 2 * GROUP) {
            __m512i even[2], odd[2];
            load_row(t, kv, &s->call->v, s->values_at[2 * pair], i, even);
            load_row(t, kv, &s->call->v, s->values_at[2 * pair + 1], i, odd);
            for (int h = 0; h < 2 && i + h * GROUP < dim; h++, to += t->value_pair) {
                const __m512i a = numbers_of(t, 2 * pair, even[h]);
                const __m512i b = numbers_of(t, 2 * pair + 1, odd[h]);
                _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, b));
                _mm512_storeu_si512(to + TILE_NUMBERS, _mm512_unpackhi_epi16(a, b));
            }
        }
    }
}

// Of 32 numbers of f16, those that are infinite or none.
INLINE __mmask32 wild_f16(__m512i x)
{
    const __m512i exponent = _mm512_set1_epi16(0x7c00);
    return _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
}

// A query rounded to f16, in two parts. Returns whether it has infinities or NaNs.
static inline bool divide_query(const float *wide, int32_t dim, uint16_t *most, uint16_t *rest)
{
    __mmask32 wild = 0;
    for (int32_t i = 0; i < dim; i += GROUP) {
        const __m256i low = _mm512_cvtps_ph(vf32_load(wide + i), _MM_FROUND_TO_NEAREST_INT);
        const __m256i high =
            _mm512_cvtps_ph(vf32_load(wide + i + LANES), _MM_FROUND_TO_NEAREST_INT);
        const struct parts parts = parts_of_f16(low, high);
        wild |= wild_f16(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
        _mm512_storeu_si512(most + i, parts.most);
        _mm512_storeu_si512(rest + i, parts.rest);
    }
    return wild != 0;
}

// A query rounded to bf16.
static inline void round_query(const float *wide, int32_t dim, uint16_t *to)
{
    for (int32_t i = 0; i < dim; i += GROUP)
        _mm512_storeu_si512(
            to + i, (__m512i)_mm512_cvtne2ps_pbh(vf32_load(wide + i + LANES), vf32_load(wide + i)));
}

static inline float value_at(const struct rows *s, int32_t key, int32_t column)
{
    const struct weft__attention_plane *v = &s->call->v;
    const int64_t at = s->values_at[key] + column;
    switch (v->dtype) {
    case WEFT_INT8: return ((const int8_t *)v->data)[at];
    case WEFT_FP8_E4M3: return weft__fp8_e4m3_to_f32(((const uint8_t *)v->data)[at]);
    case WEFT_FP8_E5M2: return weft__fp8_e5m2_to_f32(((const uint8_t *)v->data)[at]);
    case WEFT_F16: return weft__f16_to_f32(((const uint16_t *)(const void *)v->data)[at]);
    default: return weft__bf16_to_f32(((const uint16_t *)(const void *)v->data)[at]);
    }
}

static void count_block(const struct rows *s, bool mask)
{
    uint64_t blocks = 0;
    for (int32_t r = 0; r < s->rows && s->call->counts; r++)
        blocks += s->seen[r] != 0;
    weft__attention_count(s->call, blocks, mask ? blocks : 0);
}

// Up to 16 rows (attention_few_amx.c): does the first of the tiles and those after it that are alike. Returns how
// many; 0: the first has no keys, or more rows.
int32_t weft__attention_few_on_tiles(const struct weft__attention_call *call,
                                     const struct weft__attention_tile *tiles, int32_t count);

#endif
