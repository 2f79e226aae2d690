// SPDX-License-Identifier: MIT
// Few rows over caches of int8 by products of integers: what is the same whoever multiplies (attention_int8_avx512vnni.c,
// attention_int8_amx.c). Queries are rounded to 2^-14 of their largest element's power of two, weights (times the scales of
// their values) to 2^-15 of the largest of their row and block; sums of a block are exact.
#ifndef WEFT_KERNELS_ATTENTION_INT8_AVX512_H
#define WEFT_KERNELS_ATTENTION_INT8_AVX512_H

#include <float.h>

#include "src/kernels/attention/attention_int8.h"
#include "src/kernels/attention/attention_lanes_avx512.h"
#include "src/kernels/attention/attention_work.h"

enum {
    HALF_CODES = 32, // codes that become a vector of 16-bit integers
    MOST_DIM = 256,  // of keys: sums of more elements may pass 2^31
};

struct few {
    struct rows rows;
    struct int8_tiles *tiles; // of AMX
    float factor[LANES];      // of scores: the row's unit times the scale
    float shrink[LANES];      // of results
    float value_unit[LANES];  // of the block's weights
    __mmask16 used;           // lanes of scores that are rows
    bool wild;                // are some of these, times the scales of values, not finite?
};

// Are heads whole vectors, as far as the compiler knows?
INLINE bool is_whole(int32_t dim)
{
    return __builtin_constant_p(dim) && dim % HALF_CODES == 0;
}

// Of codes, `left` of which exist from there on.
INLINE __m512i load_half(const char *codes, int32_t left, const bool whole)
{
    if (whole)
        return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)codes));
    const __mmask32 mask = left < HALF_CODES ? (1u << left) - 1 : UINT32_MAX;
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, codes));
}

// A row's largest element to 15 bits, the others alike; to `most` at the most.
static void place_row(struct few *f, const int lanes, int32_t r, const float *wide,
                      const float most)
{
    const struct weft__attention_call *call = f->rows.call;
    const float scale = call->softcap > 0 ? call->scale : call->scale * LOG2E;
    const int32_t dim = call->k.dim;
    int16_t *q = (int16_t *)(void *)(f->rows.q + (int64_t)r * f->rows.pairs);
    __m512 top = _mm512_setzero_ps();
    int exponent = 0;
    for (int32_t i = 0; i < dim; i += LANES) {
        const __mmask16 mask = dim - i < LANES ? (__mmask16)((1u << (dim - i)) - 1) : 0xffff;
        top = vf32_max(top, _mm512_abs_ps(_mm512_maskz_loadu_ps(mask, wide + i)));
    }
    const float largest = vf32_largest(top);
    frexpf(largest, &exponent);
    const float above = ldexpf(largest, 15 - exponent) / most;
    const float less = above > 1 ? 1 / above : 1;
    const __m512 up = vf32_set1((float)(15 - exponent));
    for (int32_t i = 0; i < dim; i += LANES) {
        const __mmask16 mask = dim - i < LANES ? (__mmask16)((1u << (dim - i)) - 1) : 0xffff;
        const __m512 x =
            vf32_mul(vf32_set1(less), _mm512_scalef_ps(_mm512_maskz_loadu_ps(mask, wide + i), up));
        _mm256_storeu_si256((void *)(q + i), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
    }
    for (int i = 0; i < LANES; i++)
        if (row_of(lanes, i) == r)
            f->factor[i] = isfinite(largest) ? ldexpf(scale, exponent - 15) / less : NAN;
}

static void place_queries(struct few *f, const int lanes, const float most)
{
    const struct rows *s = &f->rows;
    memset(s->q, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    memset(f->factor, 0, sizeof f->factor);
    f->used = 0;
    for (int i = 0; i < LANES; i++)
        f->used |= (__mmask16)((row_of(lanes, i) < s->rows) << i);
    for (int32_t r = 0; r < s->rows; r++) {
        float wide[WEFT__ATTENTION_MAX_DIM + LANES];
        weft__attention_query(s->call, s->tile, r, wide);
        place_row(f, lanes, r, wide, most);
    }
}

// Scores to weights times the scales of values, and what the rows have come to: the online softmax. The largest
// of these products is what the block's unit follows from.
INLINE void weigh(struct few *f, const int lanes)
{
    const struct rows *s = &f->rows;
    const int vectors = BLOCK * lanes / LANES;
    const __m512 before = _mm512_loadu_ps(s->largest);
    __m512 top[STEP], total[STEP];
    __m512i most[STEP]; // bits of numbers, whose order they have; NaN comes after infinity
    VF32_UNROLL
    for (int i = 0; i < STEP; i++) {
        top[i] = before;
        total[i] = _mm512_setzero_ps();
        most[i] = _mm512_setzero_si512();
    }
    for (int v = 0; v < vectors; v += STEP)
        VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        top[i] = vf32_max(top[i], _mm512_loadu_ps(s->scores + (v + i) * LANES));
    const __m512 largest =
        over_keys(lanes, vf32_max(vf32_max(top[0], top[1]), vf32_max(top[2], top[3])), true);
    const __mmask16 none = _mm512_cmp_ps_mask(largest, vf32_set1(-INFINITY), _CMP_EQ_OQ);
    const __m512 from = _mm512_mask_blend_ps(none, largest, _mm512_setzero_ps());
    for (int v = 0; v < vectors; v += STEP)
        VF32_UNROLL
    for (int i = 0; i < STEP; i++) {
        __m512 p = vf32_exp2(vf32_sub(_mm512_loadu_ps(s->scores + (v + i) * LANES), from));
        total[i] = vf32_add(total[i], p);
        if (s->scaled)
            p = vf32_mul(p, _mm512_loadu_ps(s->value_scale + (v + i) * LANES));
        most[i] = _mm512_max_epi32(most[i], _mm512_castps_si512(_mm512_abs_ps(p)));
        _mm512_storeu_ps(s->scores + (v + i) * LANES, p);
    }
    const __m512 shrink = vf32_exp2(vf32_sub(before, from));
    const __m512 sum = over_keys(
        lanes, vf32_add(vf32_add(total[0], total[1]), vf32_add(total[2], total[3])), false);
    _mm512_storeu_ps(s->sum, vf32_fma(_mm512_loadu_ps(s->sum), shrink, sum));
    _mm512_storeu_ps(s->largest, largest);
    _mm512_storeu_ps(s->shrink, shrink);
    const __m512i bits =
        _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]));
    f->wild = _mm512_mask_cmpge_epi32_mask(f->used, bits, _mm512_set1_epi32(0x7f800000)) != 0;
    _mm512_storeu_ps(f->value_unit, over_keys(lanes, _mm512_castsi512_ps(bits), true));
}

// What makes weights of whole units, of which the largest of a row has `most`. Tiny ones are lifted first, for their inverse
// is none.
struct narrowing {
    __m512 lift, inverse;
};

INLINE struct narrowing narrowing_of(struct few *f, const float most)
{
    const __m512 largest = vf32_max(_mm512_loadu_ps(f->value_unit), vf32_set1(FLT_MIN));
    const __mmask16 tiny = _mm512_cmp_ps_mask(largest, vf32_set1(0x1p-60f), _CMP_LT_OQ);
    const __m512 lift = _mm512_mask_blend_ps(tiny, vf32_set1(1), vf32_set1(0x1p64f));
    _mm512_storeu_ps(f->value_unit, vf32_mul(largest, vf32_set1(1 / most)));
    return (struct narrowing){lift, _mm512_div_ps(vf32_set1(most), vf32_mul(largest, lift))};
}

INLINE __m512i narrow(const struct few *f, const struct narrowing *by, int vector)
{
    const __m512 x = _mm512_loadu_ps(f->rows.scores + vector * LANES);
    return _mm512_cvtps_epi32(vf32_mul(vf32_mul(x, by->lift), by->inverse));
}

// Scores of the block's keys to s->scores.
INLINE void score_block(struct few *f, const int lanes, const int32_t dim, const bool ahead);
// Its values, times what s->scores have become.
INLINE void add_block(struct few *f, const int lanes, const int32_t dim, const bool ahead);
// The same where a weight is infinite or NaN: one by one, to the rows that see the key.
static void add_wild_values(const struct few *f, const int lanes);
static void store_row(const struct rows *s, const int lanes, int32_t row);
static void begin_tile(struct few *f, const int lanes);

INLINE void attend_block(struct few *f, const int lanes, const int32_t dim, const bool ahead)
{
    struct rows *s = &f->rows;
    const struct weft__attention_call *call = s->call;
    const bool mask = s->by_all != ~UINT64_C(0) || call->generic;
    if (s->scaled)
        spread_scales(s, lanes);
    score_block(f, lanes, dim, ahead);
    if (call->softcap > 0 || call->alibi_slopes || s->scaled)
        adjust_scores(s, lanes, 0);
    if (mask)
        mask_scores(s, lanes, 0);
    weigh(f, lanes);
    if (f->wild)
        add_wild_values(f, lanes);
    else
        add_block(f, lanes, dim, ahead);
    uint64_t blocks = 0;
    for (int32_t r = 0; r < s->rows && call->counts; r++)
        blocks += s->seen[r] != 0;
    weft__attention_count(call, blocks, mask ? blocks : 0);
}

// `count` tiles of as many rows, each with keys.
INLINE void attend_few(struct few *f, const struct weft__attention_tile *tiles, int32_t count,
                       const int lanes, const int32_t dim)
{
    struct rows *s = &f->rows;
    const struct weft__attention_call *call = s->call;
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (next_of(s, &blocks)) {
        if (begins_tile(s->block)) {
            const bool loaded = same_rows(s->tile, s->block->tile);
            s->tile = s->block->tile;
            if (!loaded)
                begin_tile(f, lanes);
            open_rows(s, lanes);
            s->all = seen_by_all(s);
        }
        look(s);
        if (s->by_some && call->ahead)
            attend_block(f, lanes, dim, true);
        else if (s->by_some)
            attend_block(f, lanes, dim, false);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            store_row(s, lanes, row);
    }
}

#endif
