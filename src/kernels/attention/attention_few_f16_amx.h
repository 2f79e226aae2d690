// SPDX-License-Identifier: MIT
// Up to 16 rows over caches of f16 on the tiles of AMX: what becomes of their scores of a block between the two products, and the
// walk from block to block. Part of attention_f16_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_FEW_F16_AMX_H
#define WEFT_KERNELS_ATTENTION_FEW_F16_AMX_H

#include "src/kernels/attention/attention_tiles_rows_amx.h"

enum { VALUE_TILES = 4 }; // whose sums grow together

// Scores times `scale`, those that their rows do not see -infinity; the largest of each row.
INLINE __m512 scale_scores(const struct rows *s, int32_t b, float scale, const bool mask)
{
    int32_t low[LANES], high[LANES];
    for (int i = 0; i < LANES && mask; i++) {
        const int32_t row = b * LANES + i;
        const uint64_t seen = row < s->rows ? s->seen[row] : ~UINT64_C(0);
        low[i] = (int32_t)(uint32_t)seen;
        high[i] = (int32_t)(uint32_t)(seen >> 32);
    }
    __m512 top[STEP];
    VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        top[i] = _mm512_loadu_ps(s->largest + b * LANES);
    for (int32_t key = 0; key < BLOCK; key += STEP) {
        const __m512i seen =
            mask ? _mm512_loadu_si512(key < 32 ? low : high) : _mm512_setzero_si512();
        VF32_UNROLL
        for (int i = 0; i < STEP; i++) {
            float *at = s->scores + (key + i) * LANES;
            __m512 x = vf32_mul(vf32_set1(scale), _mm512_loadu_ps(at));
            if (mask)
                x = _mm512_mask_blend_ps(
                    _mm512_test_epi32_mask(seen,
                                           _mm512_set1_epi32((int32_t)(1u << (key + i) % 32))),
                    vf32_set1(-INFINITY), x);
            _mm512_storeu_ps(at, x);
            top[i] = vf32_max(top[i], x);
        }
    }
    return vf32_max(vf32_max(top[0], top[1]), vf32_max(top[2], top[3]));
}

INLINE void put_weights(int at, __m512 even, __m512 odd, uint32_t *weight, uint32_t *rest)
{
    const struct parts p = parts_of(even, odd, 0x8000); // what is left of a weight is rounded
    _mm512_storeu_si512(weight + at, p.most);
    _mm512_storeu_si512(rest + at, p.rest);
}

// Scores of a block of rows to weights and what the rows have come to: the online softmax.
// In two parts of bf16 (attention_f16_amx.c).
INLINE void weigh(struct tiles *t, int32_t b, float scale, const bool mask, uint32_t *rest)
{
    const struct rows *s = &t->rows;
    const __m512 before = _mm512_loadu_ps(s->largest + b * LANES);
    const __m512 largest = scale_scores(s, b, scale, mask);
    const __mmask16 none = _mm512_cmp_ps_mask(largest, vf32_set1(-INFINITY), _CMP_EQ_OQ);
    const __m512 from = _mm512_mask_blend_ps(none, largest, _mm512_setzero_ps());
    __m512 total[STEP];
    VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        total[i] = _mm512_setzero_ps();
    for (int32_t key = 0; key < BLOCK; key += STEP) {
        __m512 p[STEP];
        ask_rows(t, 2);
        VF32_UNROLL
        for (int i = 0; i < STEP; i++) {
            const __m512 x = _mm512_loadu_ps(s->scores + (key + i) * LANES);
            p[i] = vf32_exp2(vf32_sub(x, from));
            total[i] = vf32_add(total[i], p[i]);
        }
        VF32_UNROLL
        for (int i = 0; i < STEP; i += 2)
            put_weights((key + i) / 2 * LANES, p[i], p[i + 1], s->weight, rest);
    }
    const __m512 shrink = vf32_exp2(vf32_sub(before, from));
    const __m512 sum = vf32_add(vf32_add(total[0], total[1]), vf32_add(total[2], total[3]));
    _mm512_storeu_ps(s->shrink + b * LANES, shrink);
    _mm512_storeu_ps(s->sum + b * LANES,
                     vf32_fma(_mm512_loadu_ps(s->sum + b * LANES), shrink, sum));
    _mm512_storeu_ps(s->largest + b * LANES, largest);
}

// Weights with a row in a row, as the product wants them.
static void turn_weights(const uint32_t *weight, uint16_t *weights)
{
    for (int h = 0; h < HALVES; h++) {
        vf32 rows[LANES];
        vf32_load_transposed((const float *)(const void *)weight + h * TILE_SUMS, LANES, rows);
        for (int r = 0; r < LANES; r++)
            _mm512_storeu_ps((float *)(void *)(weights + h * TILE_NUMBERS) + r * LANES, rows[r]);
    }
}

// The infinities and NaNs that values of the block have, for those rows of block b that see them.
static __attribute__((noinline)) void add_wild(const struct tiles *t, int32_t b)
{
    const struct rows *s = &t->rows;
    const int32_t end = s->rows - b * LANES < LANES ? s->rows - b * LANES : LANES;
    for (int32_t key = 0; key < s->block->n; key++)
        for (int32_t r = 0; r < end && t->wild >> key & 1; r++) {
            const uint16_t weight = t->weights[key / 32 * TILE_NUMBERS + r * 32 + key % 32];
            for (int32_t i = 0; i < s->call->v.dim && s->seen[b * LANES + r] >> key & 1; i++) {
                const float x = value_at(s, key, i);
                if (!isfinite(x))
                    sums_of(s, b)[place_of(s, r, i)] += weft__bf16_to_f32(weight) * x;
            }
        }
}

// Rows of pairs, from[row][pairs], as attention_pairs.h lays queries for 16 rows.
static void turn_queries(const uint16_t *from, int32_t pairs, uint32_t *to)
{
    for (int32_t i = 0; i < pairs; i += LANES) {
        vf32 turned[LANES];
        vf32_load_transposed((const float *)(const void *)from + i, pairs, turned);
        for (int n = 0; n < LANES; n++)
            vf32_store((float *)(void *)to + (i + n) * LANES, turned[n]);
    }
}

// Queries of a tile, 16 rows at a time, through `keys` and `keys_rest`.
static void take_queries(struct tiles *t)
{
    const struct rows *s = &t->rows;
    const int32_t dim = s->call->k.dim;
    t->wild_queries = false;
    for (int32_t b = 0; b < s->blocks; b++) {
        const int64_t at = (int64_t)b * s->pairs * LANES;
        memset(t->keys, 0, (size_t)(LANES * dim) * sizeof *t->keys);
        memset(t->keys_rest, 0, (size_t)(LANES * dim) * sizeof *t->keys);
        for (int32_t r = b * LANES; r < s->rows && r < (b + 1) * LANES; r++) {
            float wide[WEFT__ATTENTION_MAX_DIM];
            weft__attention_query(s->call, s->tile, r, wide);
            const int32_t to = r % LANES * dim;
            t->wild_queries |= divide_query(wide, dim, t->keys + to, t->keys_rest + to);
        }
        turn_queries(t->keys, s->pairs, s->q + at);
        turn_queries(t->keys_rest, s->pairs, t->q_rest + at);
    }
}

// The next block of keys that rows see or not, at a tile's first with its queries. False: there is none.
static bool begin_block(struct tiles *t, struct blocks *blocks)
{
    struct rows *s = &t->rows;
    if (!next_of(s, blocks))
        return false;
    t->asked = s->call->ahead ? 0 : ALL_ROWS;
    if (begins_tile(s->block)) {
        const bool loaded = same_rows(s->tile, s->block->tile);
        s->tile = s->block->tile;
        if (!loaded)
            take_queries(t);
        open_rows(s, LANES);
        s->all = seen_by_all(s);
    }
    look(s);
    return true;
}

// `count` tiles of as many rows, each with keys; attend(): what becomes of a block that some rows see.
INLINE void attend_tiles(const struct weft__attention_call *call,
                         const struct weft__attention_tile *tiles, int32_t count,
                         void (*attend)(struct tiles *t))
{
    struct tiles t = lay_out_tiles(call, tiles);
    struct rows *s = &t.rows;
    t.eager = s->blocks > 1; // whose arithmetic is what takes the time
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (begin_block(&t, &blocks)) {
        if (s->by_some)
            attend(&t);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, row);
    }
}

#endif
