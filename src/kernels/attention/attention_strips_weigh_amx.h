// SPDX-License-Identifier: MIT
// What becomes of a strip's scores between the two products (attention_strips_amx.h): their maxima and weights. Part of
// attention_tiles_amx.c and attention_f16_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_STRIPS_WEIGH_AMX_H
#define WEFT_KERNELS_ATTENTION_STRIPS_WEIGH_AMX_H

#include "src/kernels/attention/attention_strips_amx.h"

// Weights are at most 2^8 of what they would be if the largest score so far were their base, and two steps of words: that
// grows seldom. As words they are at most 1, or are seen to be more.
static const float MOST_GROWTH = 8 + 2.0f / WORD_STEPS, WORDS_BELOW = 8, WORDS_ABOVE = 256;
enum { WORD_ONE = 0x3f80 };

// What is done to the scores of a row.
struct weighing {
    bool mask; // some rows do not see all of the keys
    bool scaled;
    bool far; // the base is so large that products are to be rounded before it is subtracted
};

INLINE __m512 max_of(__m512 a, __m512 b)
{
    return _mm512_max_ps(a, b);
}

// Lane i of the result is the largest lane of v[i].
INLINE __m512 largest_of(const __m512 v[LANES])
{
    __m512 pairs[8], quads[4];
    for (int i = 0; i < 8; i++)
        pairs[i] = max_of(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                          _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        const __m512d low = _mm512_castps_pd(pairs[2 * i]),
                      high = _mm512_castps_pd(pairs[2 * i + 1]);
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

// Which keys of a slot row `row` sees.
INLINE uint64_t seen_of(const struct strips *t, int32_t row, int32_t slot, const bool mask)
{
    const struct rows *s = &t->tiles.rows;
    return mask && row < s->rows ? t->seen[slot * (int64_t)s->blocks * LANES + row] : ~UINT64_C(0);
}

INLINE __m512 load_score(const struct strips *t, const float *scores, int32_t slot, int i,
                         const bool scaled)
{
    const __m512 x = _mm512_loadu_ps(scores + i * TILE_SUMS);
    return scaled ? vf32_mul(x, _mm512_loadu_ps(t->tiles.rows.key_scale + slot * BLOCK + i * 16))
                  : x;
}

// The largest scores of sixteen rows that see all keys of a slot, before the scale.
INLINE __m512 largest_plain(const float *scores)
{
    __m512 top[LANES];
    VF32_UNROLL
    for (int r = 0; r < LANES; r++, scores += LANES)
        top[r] = max_of(max_of(_mm512_loadu_ps(scores), _mm512_loadu_ps(scores + TILE_SUMS)),
                        max_of(_mm512_loadu_ps(scores + 2 * TILE_SUMS),
                               _mm512_loadu_ps(scores + 3 * TILE_SUMS)));
    return largest_of(top);
}

// And of those that do not.
INLINE __m512 largest_scores(const struct strips *t, const float *scores, int32_t b, int32_t slot,
                             int32_t sixteens, const struct weighing how)
{
    __m512 top[LANES];
    for (int r = 0; r < LANES; r++, scores += LANES) {
        const uint64_t seen = seen_of(t, b * LANES + r, slot, how.mask);
        top[r] = vf32_set1(-INFINITY);
        for (int32_t i = 0; i < sixteens; i++)
            top[r] = _mm512_mask_max_ps(top[r], (__mmask16)(seen >> i * 16), top[r],
                                        load_score(t, scores, slot, i, how.scaled));
    }
    return largest_of(top);
}

// Scores of two sixteens of a row to weights, whose sums are added to `total`. In two parts of bf16 if `two`.
INLINE __m512 weigh_two(const struct strips *t, const float *scores, int64_t to, int32_t slot,
                        int i, uint64_t seen, __m512 base, __m512 scale, const struct weighing how,
                        const bool two)
{
    __m512 p[2], sum;
    VF32_UNROLL
    for (int h = 0; h < 2; h++) {
        const __mmask16 keys = (__mmask16)(seen >> (i + h) * 16);
        const __m512 x = load_score(t, scores, slot, i + h, how.scaled);
        p[h] = power_of(how.scaled ? vf32_sub(x, base)
                        : how.far  ? vf32_sub(vf32_mul(x, scale), base)
                                   : _mm512_fmsub_ps(x, scale, base),
                        keys);
    }
    sum = vf32_add(p[0], p[1]);
    for (int h = 0; h < 2 && how.scaled; h++)
        p[h] = _mm512_mask_mul_ps(
            p[h], (__mmask16)(seen >> (i + h) * 16), p[h],
            _mm512_loadu_ps(t->tiles.rows.value_scale + slot * BLOCK + (i + h) * 16));
    if (two) {
        const struct parts parts = parts_of(p[0], p[1], 0x8000); // what is left is rounded
        _mm512_storeu_si512(t->tiles.weights + to, parts.most);
        _mm512_storeu_si512(t->tiles.weights_rest + to, parts.rest);
    } else {
        for (int h = 0; h < 2 && t->words; h++)
            p[h] = vf32_mul(p[h], vf32_set1(1 / WORDS_ABOVE));
        _mm512_storeu_si512(t->tiles.weights + to, word_rounded(p[0], p[1]));
    }
    return sum;
}

// The same as words, which are returned.
INLINE __m512i weigh_words(const struct strips *t, const struct word_table *table,
                           const float *scores, int64_t to, int i, uint64_t seen, __m512 offset,
                           __m512 scale)
{
    const __m512 x = _mm512_fmadd_ps(_mm512_loadu_ps(scores + i * TILE_SUMS), scale, offset);
    const __m512 y = _mm512_fmadd_ps(_mm512_loadu_ps(scores + (i + 1) * TILE_SUMS), scale, offset);
    const __m512i words =
        word_powers(table, x, y, (__mmask16)(seen >> i * 16), (__mmask16)(seen >> (i + 1) * 16));
    _mm512_storeu_si512(t->tiles.weights + to, words);
    return words;
}

// The online softmax of a strip on its way: the scores of one slot become weights while the tiles multiply those of the next.
struct pending {
    __m512 total[STRIP];                                 // of the weights of the strip
    float base[STRIP], offset[STRIP], scale, word_scale; // offset: of words
    int32_t strip, slot, turn, sixteens, row;            // rows before that one are weights
    int32_t due, groups;                                 // the products come in so many groups
    int32_t begin, end; // 32 keys each: weights that are not added yet
    bool words, mask;
    // The largest words so far. Bases are those of the slots before until one is larger than that of 1.
    __m512i most;
    bool unseen;                       // nothing has looked for the largest scores
    const struct asked *ask, *ask_end; // what is to be asked for, so many a group
    int32_t asks;
};

enum { TOGETHER = 4 }; // rows of words

// The sums of their rows that LSEs are made of.
static __attribute__((noinline)) void weigh_exactly(const struct strips *t, struct pending *p,
                                                    const float *scores, bool mask)
{
    const __m512 scale = vf32_set1(p->scale);
    for (int32_t row = p->row; row < p->row + TOGETHER; row++, scores += LANES) {
        const uint64_t seen = seen_of(t, p->strip * STRIP + row, p->slot, mask);
        __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        for (int i = 0; i < p->sixteens; i++) {
            const __m512 x = _mm512_fmsub_ps(_mm512_loadu_ps(scores + i * TILE_SUMS), scale,
                                             vf32_set1(p->base[row]));
            sum[i % 2] = vf32_add(sum[i % 2], power_of(x, (__mmask16)(seen >> i * 16)));
        }
        p->total[row] = vf32_add(p->total[row], vf32_add(sum[0], sum[1]));
    }
}

INLINE void weigh_next(const struct strips *t, struct pending *p, const struct weighing how,
                       const bool whole, const bool two)
{
    const int32_t b = 2 * p->strip + p->row / LANES, r = p->row % LANES;
    const float *scores = t->tiles.rows.scores + scores_at(b, p->turn) + r * LANES;
    const int64_t to = weights_at(b, p->slot) + r * GROUP;
    const uint64_t seen = seen_of(t, b * LANES + r, p->slot, how.mask);
    const __m512 base = vf32_set1(p->base[p->row]), scale = vf32_set1(p->scale);
    __m512 sum = weigh_two(t, scores, to, p->slot, 0, seen, base, scale, how, two);
    if (whole || p->sixteens > 2)
        sum = vf32_add(
            sum, weigh_two(t, scores, to + TILE_NUMBERS, p->slot, 2, seen, base, scale, how, two));
    p->total[p->row] = vf32_add(p->total[p->row], sum);
    p->row++;
}

// Four rows as words.
INLINE void weigh_quad(const struct strips *t, struct pending *p, const bool mask, const bool whole)
{
    const struct word_table table = word_table_of();
    const int32_t b = p->row / LANES, r = p->row % LANES;
    const float *scores = t->tiles.rows.scores + scores_at(b, p->turn) + r * LANES;
    const int64_t to = weights_at(b, p->slot) + r * GROUP;
    const float *offset = p->offset + p->row;
    const __m512 scale = vf32_set1(p->word_scale);
    __m512i most = p->most;
    if (t->exact)
        weigh_exactly(t, p, scores, mask);
    VF32_UNROLL
    for (int j = 0; j < TOGETHER; j++) {
        const uint64_t seen = seen_of(t, p->strip * STRIP + p->row + j, p->slot, mask);
        const float *from = scores + j * LANES;
        const int64_t at = to + j * GROUP;
        const __m512 less = vf32_set1(offset[j]);
        most = _mm512_max_epu16(most, weigh_words(t, &table, from, at, 0, seen, less, scale));
        if (whole || p->sixteens > 2)
            most = _mm512_max_epu16(
                most, weigh_words(t, &table, from, at + TILE_NUMBERS, 2, seen, less, scale));
    }
    p->most = most;
    p->row += TOGETHER;
}

INLINE void weigh_four(const struct strips *t, struct pending *p)
{
    if (p->mask)
        weigh_quad(t, p, true, false);
    else
        weigh_quad(t, p, false, true);
}

// The products come in `groups` from now on.
INLINE void weigh_beside(struct pending *p, int64_t groups)
{
    if (p)
        p->groups = (int32_t)groups, p->due = 0;
}

// Of those for the second cache.
INLINE void ask_some(struct pending *p, int32_t rows)
{
    for (; rows > 0 && p->ask < p->ask_end; rows--, p->ask++)
        for (int64_t i = 0; i < p->ask->lines; i++)
            _mm_prefetch(p->ask->row + 64 * i, _MM_HINT_T1);
}

// A group of them is on its way: what is due of the rows meanwhile. NULL: nothing is.
INLINE void weigh_due(const struct strips *t, struct pending *p, const bool two)
{
    if (!p)
        return;
    ask_some(p, p->asks);
    if (!two && p->words) {
        for (p->due += STRIP / TOGETHER; p->due >= p->groups; p->due -= p->groups)
            if (p->row < STRIP)
                weigh_four(t, p);
        return;
    }
    for (p->due += STRIP; p->due >= p->groups; p->due -= p->groups)
        if (p->row < STRIP)
            weigh_next(t, p, (struct weighing){.mask = false}, true, two);
}

// All rows that are left.
INLINE void end_weighing(const struct strips *t, struct pending *p, const struct weighing how,
                         const bool whole, const bool two)
{
    while (!two && p->words && p->row < STRIP)
        weigh_four(t, p);
    while (p->row < STRIP)
        weigh_next(t, p, how, whole, two);
}

#endif
