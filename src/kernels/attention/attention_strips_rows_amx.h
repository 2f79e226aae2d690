// SPDX-License-Identifier: MIT
// What becomes of a strip's scores between the two products (attention_strips_amx.h), and the walk through the blocks of keys.
// Part of attention_tiles_amx.c and attention_f16_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_STRIPS_ROWS_AMX_H
#define WEFT_KERNELS_ATTENTION_STRIPS_ROWS_AMX_H

#include "src/kernels/attention/attention_strips_amx.h"

// What is done to the scores of sixteen rows.
struct weighing {
    bool mask, scaled;
    bool far; // the largest are so large that their products are to be rounded before they are subtracted
};

INLINE __m512 max_of(__m512 a, __m512 b)
{
    return _mm512_max_ps(a, b);
}

// Lane i of the result is the largest lane of v[i].
static __m512 largest_of(const __m512 v[LANES])
{
    __m512 pairs[8], quads[4];
    for (int i = 0; i < 8; i++)
        pairs[i] = max_of(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                          _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        const __m512d low = _mm512_castps_pd(pairs[2 * i]), high = _mm512_castps_pd(pairs[2 * i + 1]);
        quads[i] = max_of(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
                          _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
    }
    const __m512 a = max_of(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88),
                            _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
    const __m512 b = max_of(_mm512_shuffle_f32x4(quads[2], quads[3], 0x88),
                            _mm512_shuffle_f32x4(quads[2], quads[3], 0xdd));
    return max_of(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

// 2^x for x <= 0 or a little above, within 1.5 units in the last place: 2^f times 2^(x - f), 0 <= f < 1. -infinity gives 0, where
// VREDUCEPS gives 0; NaN gives NaN. The polynomial's relative error is 2^-23.3.
INLINE __m512 power_of(__m512 x, __mmask16 seen)
{
    const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 p = vf32_set1(0x1.e974fep-10f);
    p = vf32_fma(p, f, vf32_set1(0x1.277854p-7f));
    p = vf32_fma(p, f, vf32_set1(0x1.c91ce6p-5f));
    p = vf32_fma(p, f, vf32_set1(0x1.ebdb56p-3f));
    p = vf32_fma(p, f, vf32_set1(0x1.62e4bap-1f));
    p = vf32_fma(p, f, vf32_set1(1));
    return _mm512_maskz_scalef_ps(seen, p, x);
}

// Which of sixteen keys row `row` sees.
INLINE __mmask16 seen_of(const struct strips *t, int32_t row, int32_t sixteen, const bool mask)
{
    const struct rows *s = &t->tiles.rows;
    if (!mask || row >= s->rows)
        return 0xffff;
    const int64_t padded = (int64_t)s->blocks * LANES;
    return (__mmask16)(t->seen[sixteen / SIXTEENS * padded + row] >> sixteen % SIXTEENS * 16);
}

INLINE __m512 load_score(const struct strips *t, const float *at, int32_t sixteen,
                         const bool scaled)
{
    const __m512 x = _mm512_loadu_ps(at);
    return scaled ? vf32_mul(x, _mm512_loadu_ps(t->tiles.rows.key_scale + sixteen * 16)) : x;
}

// The largest scores of sixteen rows.
INLINE __m512 largest_scores(const struct strips *t, int32_t b, int32_t sixteens, const bool mask,
                             const bool scaled)
{
    const float *scores = t->tiles.rows.scores + scores_at(b);
    __m512 top[LANES];
    for (int r = 0; r < LANES; r++) {
        __m512 a = vf32_set1(-INFINITY), c = a;
        for (int32_t j = 0; j < sixteens; j += 2) {
            const float *at = scores + j * TILE_SUMS + r * LANES;
            const __m512 x = load_score(t, at, j, scaled);
            const __m512 y = load_score(t, at + TILE_SUMS, j + 1, scaled);
            a = _mm512_mask_max_ps(a, seen_of(t, b * LANES + r, j, mask), a, x);
            c = _mm512_mask_max_ps(c, seen_of(t, b * LANES + r, j + 1, mask), c, y);
        }
        top[r] = max_of(a, c);
    }
    return largest_of(top);
}

// Scores of a row to weights. Returns their sums.
INLINE __m512 weigh_row(const struct strips *t, int32_t b, int32_t r, int32_t sixteens,
                        float largest, float scale, const struct weighing how, const bool two)
{
    const struct rows *s = &t->tiles.rows;
    const float *scores = s->scores + scores_at(b) + r * LANES;
    const int64_t to = weights_at(b) + r * GROUP;
    const __m512 from = vf32_set1(largest), factor = vf32_set1(scale);
    __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int32_t j = 0; j < sixteens; j += 2) {
        __m512 p[2];
        VF32_UNROLL
        for (int i = 0; i < 2; i++) {
            const __mmask16 seen = seen_of(t, b * LANES + r, j + i, how.mask);
            const __m512 x = load_score(t, scores + (j + i) * TILE_SUMS, j + i, how.scaled);
            p[i] = power_of(how.scaled ? vf32_sub(x, from)
                            : how.far  ? vf32_sub(vf32_mul(x, factor), from)
                                       : _mm512_fmsub_ps(x, factor, from),
                            seen);
            total[i] = vf32_add(total[i], p[i]);
            if (how.scaled)
                p[i] = _mm512_mask_mul_ps(p[i], seen, p[i],
                                          _mm512_loadu_ps(s->value_scale + (j + i) * 16));
        }
        const int64_t at = to + j / 2 * TILE_NUMBERS;
        if (two) {
            const struct parts parts = parts_of(p[0], p[1], 0x8000); // what is left is rounded
            _mm512_storeu_si512(t->tiles.weights + at, parts.most);
            _mm512_storeu_si512(t->tiles.weights_rest + at, parts.rest);
        } else
            _mm512_storeu_si512(t->tiles.weights + at, (__m512i)_mm512_cvtne2ps_pbh(p[1], p[0]));
    }
    return vf32_add(total[0], total[1]);
}

// The online softmax of sixteen rows on its way, which goes on beside products of other rows.
struct pending {
    __m512 total[LANES], shrink;
    float from[LANES], scale;
    int32_t b, sixteens, row; // rows before that one are weights
    int32_t due, groups;      // the products come in so many groups
};

INLINE void weigh_next(const struct strips *t, struct pending *p, const struct weighing how,
                       const bool two)
{
    p->total[p->row] =
        weigh_row(t, p->b, p->row, p->sixteens, p->from[p->row], p->scale, how, two);
    p->row++;
}

// The largest scores of sixteen rows; where their products are to be rounded, all the rest, too.
INLINE void begin_weighing(const struct strips *t, struct pending *p, int32_t b, int32_t sixteens,
                           const struct weighing how, const bool two)
{
    const struct rows *s = &t->tiles.rows;
    const __m512 scale = vf32_set1(fabsf(s->call->scale) * LOG2E);
    const __m512 before = _mm512_loadu_ps(s->largest + b * LANES);
    const __m512 top = largest_scores(t, b, sixteens, how.mask, how.scaled);
    const __mmask16 some = _mm512_cmp_ps_mask(top, vf32_set1(-INFINITY), _CMP_NEQ_UQ);
    const __m512 largest =
        vf32_max(before, how.scaled ? top : _mm512_mask_mul_ps(top, some, top, scale));
    const __mmask16 none = _mm512_cmp_ps_mask(largest, vf32_set1(-INFINITY), _CMP_EQ_OQ);
    const __m512 from = _mm512_mask_blend_ps(none, largest, _mm512_setzero_ps());
    const bool far = _mm512_cmp_ps_mask(_mm512_abs_ps(from), vf32_set1(0x1p20f), _CMP_NLT_UQ) != 0;
    _mm512_storeu_ps(p->from, from);
    _mm512_storeu_ps(s->largest + b * LANES, largest);
    p->shrink = vf32_exp2(vf32_sub(before, from));
    p->scale = fabsf(s->call->scale) * LOG2E;
    p->b = b, p->sixteens = sixteens, p->row = 0;
    while (far && !how.scaled && p->row < LANES)
        weigh_next(t, p, (struct weighing){.mask = how.mask, .far = true}, two);
}

// The products come in `groups` from now on.
INLINE void weigh_beside(struct pending *p, int64_t groups)
{
    if (p)
        p->groups = (int32_t)groups, p->due = 0;
}

// A group of them is on its way: what is due of sixteen rows meanwhile. NULL: nothing is.
INLINE void weigh_due(const struct strips *t, struct pending *p, const bool two)
{
    if (!p)
        return;
    for (p->due += LANES; p->due >= p->groups; p->due -= p->groups)
        if (p->row < LANES)
            weigh_next(t, p, (struct weighing){.mask = false}, two);
}

INLINE void end_weighing(const struct strips *t, struct pending *p, const struct weighing how,
                         const bool two)
{
    const struct rows *s = &t->tiles.rows;
    float *sum = s->sum + p->b * LANES;
    while (p->row < LANES)
        weigh_next(t, p, how, two);
    _mm512_storeu_ps(s->shrink + p->b * LANES, p->shrink);
    _mm512_storeu_ps(sum, vf32_fma(_mm512_loadu_ps(sum), p->shrink, vf32_sums(p->total)));
    shrink_sums(s, p->b);
    tiles_written();
}

INLINE void weigh_rows(const struct strips *t, int32_t b, int32_t sixteens,
                       const struct weighing how, const bool two)
{
    struct pending p;
    begin_weighing(t, &p, b, sixteens, how, two);
    end_weighing(t, &p, how, two);
}

static __attribute__((noinline)) void weigh_masked(const struct strips *t, int32_t strip,
                                                   int32_t sixteens, const bool two)
{
    for (int32_t b = 2 * strip; b < 2 * strip + 2; b++)
        if (!two && t->tiles.rows.scaled)
            weigh_rows(t, b, sixteens, (struct weighing){.mask = true, .scaled = true}, two);
        else
            weigh_rows(t, b, sixteens, (struct weighing){.mask = true}, two);
}

// Sixteens of keys of which a strip sees some, an even number: those behind them need not be multiplied.
static int32_t sixteens_of(const struct strips *t, int32_t strip)
{
    const struct rows *s = &t->tiles.rows;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    for (int32_t slot = t->slots - 1; slot >= 0; slot--) {
        uint64_t some = 0;
        for (int32_t r = strip * STRIP; r < end; r++)
            some |= t->seen[slot * (int64_t)s->blocks * LANES + r];
        if (some)
            return slot * SIXTEENS + (some >> 32 ? SIXTEENS : 2);
    }
    return 0;
}

// Infinities and NaNs that values of the slots have, for those rows of a strip that see them.
static __attribute__((noinline)) void add_wild_strip(const struct strips *t, int32_t strip)
{
    const struct rows *s = &t->tiles.rows;
    struct rows of_slot = *s;
    const int32_t dim = s->call->v.dim;
    const int32_t end = (strip + 1) * STRIP < s->rows ? (strip + 1) * STRIP : s->rows;
    for (int32_t key = 0; key < t->slots * BLOCK; key++) {
        const int32_t slot = key / BLOCK;
        if (!(t->wild[slot] >> key % BLOCK & 1))
            continue;
        of_slot.values_at = t->value_places + slot * BLOCK;
        for (int32_t r = strip * STRIP; r < end; r++) {
            const int64_t half = weights_at(r / LANES) + key / 32 * TILE_NUMBERS;
            const int32_t place = s->call->v.dtype == WEFT_F16 ? key % 16 * 2 + key % 32 / 16 : key % 32;
            const float weight = weft__bf16_to_f32(t->tiles.weights[half + r % LANES * 32 + place]);
            if (!(t->seen[slot * (int64_t)s->blocks * LANES + r] >> key % BLOCK & 1))
                continue;
            for (int32_t i = 0; i < dim; i++) {
                const float x = value_at(&of_slot, key % BLOCK, i);
                if (!isfinite(x))
                    sums_of(s, r / LANES)[place_of(s, r % LANES, i)] += weight * x;
            }
        }
    }
}

// The kernel's own part of a format: what a block becomes, and the two products, beside which rows are weighed if that is not
// NULL.
struct strip_products {
    void (*gather)(struct strips *t);
    void (*score)(const struct strips *t, int32_t strip, int32_t sixteens, struct pending *beside);
    void (*add)(const struct strips *t, int32_t strip, int32_t sixteens, struct pending *beside);
};

// One strip after the other, as far as it sees.
INLINE void attend_masked(struct strips *t, const struct strip_products of, const bool wild,
                          const bool two)
{
    for (int32_t strip = 0; strip < t->tiles.rows.blocks / 2; strip++) {
        const int32_t sixteens = sixteens_of(t, strip);
        if (sixteens == 0)
            continue;
        of.score(t, strip, sixteens, NULL);
        tiles_written();
        weigh_masked(t, strip, sixteens, two);
        of.add(t, strip, sixteens, NULL);
        tiles_written();
        if (wild)
            add_wild_strip(t, strip);
    }
}

// All keys for all rows: the tiles multiply for one strip while the scores of the next become weights.
//
//      tiles      score 0 | -            | score 1      | add 0        | score 2      | add 1 ..
//      vectors            | 0, 16 rows   | 0, the rest  | 1, 16 rows   | 1, the rest  | 2, ..
INLINE void attend_all(struct strips *t, const struct strip_products of, const bool two)
{
    const int32_t strips = t->tiles.rows.blocks / 2, sixteens = t->slots * SIXTEENS;
    const struct weighing how = {.mask = false};
    struct pending p;
    of.score(t, 0, sixteens, NULL);
    for (int32_t strip = 0; strip < strips; strip++) {
        tiles_written();
        begin_weighing(t, &p, 2 * strip, sixteens, how, two);
        if (strip > 0)
            of.add(t, strip - 1, sixteens, &p);
        end_weighing(t, &p, how, two);
        begin_weighing(t, &p, 2 * strip + 1, sixteens, how, two);
        if (strip + 1 < strips)
            of.score(t, strip + 1, sixteens, &p);
        end_weighing(t, &p, how, two);
    }
    of.add(t, strips - 1, sixteens, NULL);
    tiles_written();
}

INLINE void attend_slots(struct strips *t, const struct strip_products of, const bool two)
{
    bool mask = t->tiles.rows.call->generic || t->tiles.rows.scaled;
    uint64_t wild = 0;
    for (int32_t slot = 0; slot < t->slots; slot++) {
        mask |= t->by_all[slot] != ~UINT64_C(0);
        wild |= t->wild[slot];
    }
    if (mask || wild)
        attend_masked(t, of, wild != 0, two);
    else
        attend_all(t, of, two);
    t->slots = 0;
}

static bool begin_slot(struct strips *t, struct blocks *blocks)
{
    struct rows *s = &t->tiles.rows;
    if (!next_of(s, blocks))
        return false;
    t->tiles.asked = s->call->ahead ? 0 : ALL_ROWS;
    if (begins_tile(s->block)) {
        const bool loaded = same_rows(s->tile, s->block->tile);
        s->tile = s->block->tile;
        if (!loaded)
            take_strip_queries(t);
        open_rows(s, LANES);
        s->all = seen_by_all(s);
    }
    s->seen = t->seen + t->slots * (int64_t)s->blocks * LANES;
    look(s);
    return true;
}

// The results of a row that has seen all of its keys, as vectors.
static void finish_strip_row(const struct rows *s, int32_t row)
{
    const struct weft__attention_call *call = s->call;
    const int64_t token =
        (int64_t)call->lengths.cu_q_lens[s->tile->seq] + weft__attention_token(call, s->tile, row);
    const int64_t head = weft__attention_head(call, s->tile, row);
    const int64_t at = token * call->out_token_stride + head * call->out_head_stride;
    const float inverse = weft__attention_close(call, token, head, s->largest[row], s->sum[row]);
    for (int32_t i = 0; i < call->v.dim; i += GROUP) {
        __m512 x[2];
        load_columns(s, row, i, x);
        for (int h = 0; h < 2; h++) {
            const int64_t to = at + i + h * LANES;
            const __m512 y = vf32_mul(x[h], vf32_set1(inverse));
            if (call->out_dtype == WEFT_F32)
                vf32_store((float *)call->out + to, y);
            else if (call->out_dtype == WEFT_F16)
                vf32_store_f16((uint16_t *)call->out + to, y);
            else
                vf32_store_bf16((uint16_t *)call->out + to, y);
        }
    }
}

// `count` tiles of as many rows, each with keys.
INLINE void attend_strips(const struct weft__attention_call *call,
                          const struct weft__attention_tile *tiles, int32_t count,
                          const struct strip_products of, const bool two)
{
    struct strips t = lay_out_strips(call, tiles);
    struct rows *s = &t.tiles.rows;
    struct blocks blocks = begin_blocks(s, tiles, count);
    while (begin_slot(&t, &blocks)) {
        if (s->by_some)
            take_slot(&t, of.gather);
        if (t.slots == SLOTS || (t.slots > 0 && ends_tile(s->block)))
            attend_slots(&t, of, two);
        for (int32_t row = 0; ends_tile(s->block) && row < s->rows; row++)
            (s->tile->partial ? store_row : finish_strip_row)(s, row);
    }
}

#endif
