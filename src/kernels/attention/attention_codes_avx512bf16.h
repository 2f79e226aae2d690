// SPDX-License-Identifier: MIT
// Products of pairs over codes of a byte: int8, fp8_e4m3 and fp8_e5m2 become bf16 in registers (attention_widen_avx512.h).
// Part of attention_pairs_avx512bf16.c.
//
//      key      64 codes -> 2 vectors: in each part of 128 bits, codes 0..7 and 8..15 of 16. Queries lie alike
//      values   of two keys, 64 columns: unpacked to pairs first, then the same -> 4 vectors of 16 columns. In part l,
//               vector v has columns 16 l + 4 v .. 16 l + 4 v + 3
#ifndef WEFT_KERNELS_ATTENTION_CODES_AVX512BF16_H
#define WEFT_KERNELS_ATTENTION_CODES_AVX512BF16_H

#include "src/kernels/attention/attention_lanes_avx512.h"
#include "src/kernels/attention/attention_widen_avx512.h"

// 64 codes from `column` on of `dim`, those that there are.
INLINE __m512i load_codes(const char *codes, const int32_t dim, int32_t column)
{
    if (__builtin_constant_p(dim) && dim % CODE_GROUP == 0)
        return _mm512_loadu_si512(codes);
    return _mm512_maskz_loadu_epi8(codes_from(dim, column), codes);
}

INLINE __m512 add_pair(__m512 sum, __m512i values, const uint32_t *weight)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)values, (__m512bh)_mm512_set1_epi32((int32_t)*weight));
}

// Sums of UNIT_SUMS products, or of all rows if they are more: sums[row and key of the vector of scores] for `keys` keys
// from `at` on, which are those from `first` on of the vector.
INLINE void score_unit(const struct rows *s, weft_dtype kv, const struct code_table *table,
                       const int lanes, const int32_t dim, const uint32_t *q, const int64_t *at,
                       const int first, const int keys, const bool ahead, __m512 *sums)
{
    const char *pool = s->call->k.data;
    const int64_t pairs = (dim + CODE_GROUP - 1) / CODE_GROUP * (CODE_GROUP / 2);
    VF32_UNROLL
    for (int j = 0; j < keys; j++)
        VF32_UNROLL
    for (int r = 0; r < lanes; r++)
        sums[score_lane(lanes, r, first + j)] = _mm512_setzero_ps();
    VF32_UNROLL
    for (int32_t column = 0; column < dim; column += CODE_GROUP) {
        VF32_UNROLL
        for (int j = 0; j < keys; j++) {
            __m512i halves[2];
            if (ahead)
                ask_codes(pool, at + j, column);
            widen_codes(kv, table, load_codes(pool + at[j] + column, dim, column), halves);
            VF32_UNROLL
            for (int h = 0; h < 2; h++)
                VF32_UNROLL
            for (int r = 0; r < lanes; r++) {
                const __m512i x =
                    _mm512_loadu_si512(q + r * pairs + column / 2 + h * LANES);
                __m512 *sum = &sums[score_lane(lanes, r, first + j)];
                *sum = _mm512_dpbf16_ps(*sum, (__m512bh)halves[h], (__m512bh)x);
            }
        }
    }
}

// Scores of code_step() keys from `key` on of the block, times `scale`: two vectors. The lanes of a vector are added up
// beside the products of the next: they have waited for the last of their own by then.
INLINE void score_codes(const struct rows *s, weft_dtype kv, const struct code_table *table,
                        const int lanes, const int32_t dim, const uint32_t *q, int32_t key,
                        float scale, const bool ahead)
{
    const int keys = LANES / lanes; // of a vector
    const int unit = lanes >= UNIT_SUMS ? 1 : UNIT_SUMS / lanes, units = keys / unit;
    float *scores = s->scores + key / keys * LANES;
    __m512 sums[2][LANES];
    VF32_UNROLL
    for (int i = 0; i <= 2 * units; i++) {
        if (i < 2 * units)
            score_unit(s, kv, table, lanes, dim, q, s->at + key + i * unit, i % units * unit, unit,
                       ahead, sums[i / units]);
        if (i >= units && (i == units || i == 2 * units))
            _mm512_storeu_ps(scores + (i / units - 1) * LANES,
                             vf32_mul(vf32_set1(scale), vf32_sums(sums[i / units - 1])));
    }
}

// acc[row][columns] = acc * shrink + weight * value for `rows` rows of a block of rows from row `first` on, and 32
// columns of group `g` from half `half` on, `halves` times. `apart`: a row alone, for which keys that it does not see
// have values of 0.
INLINE void add_codes(const struct rows *s, weft_dtype kv, const struct code_table *table,
                      const int lanes, const int32_t dim, const int rows, const int halves,
                      int32_t b, int first, int32_t g, const int half, const bool apart, const bool ahead)
{
    const uint32_t *weight = s->weight + (int64_t)b * PAIRS * lanes + first;
    const float *shrink = s->shrink + b * LANES;
    const char *pool = (const char *)s->call->v.data + g * CODE_GROUP;
    const __mmask64 mask = codes_from(dim, g * CODE_GROUP);
    const uint64_t seen = apart ? s->seen[b * lanes + first] : 0;
    float *acc =
        s->acc + (((int64_t)b * s->groups + g) * lanes + first) * CODE_GROUP + half * 2 * LANES;
    __m512 sums[4 * VALUE_ROWS];
    VF32_UNROLL
    for (int r = 0; r < rows; r++)
        VF32_UNROLL
    for (int v = 0; v < 2 * halves; v++)
        sums[r * 2 * halves + v] = _mm512_mul_ps(vf32_set1(shrink[lane_of(lanes, first + r)]),
                                                 _mm512_loadu_ps(acc + r * CODE_GROUP + v * LANES));
    const int64_t *at = s->values_at, *const end = at + s->block->n;
    for (; at < end; at += 2, weight += lanes) {
        const int64_t j = at - s->values_at;
        if (ahead) {
            ask_codes(pool, at, 0);
            ask_codes(pool, at + 1, 0);
        }
        const __m512i even =
            _mm512_maskz_loadu_epi8(!apart || seen >> j & 1 ? mask : 0, pool + at[0]);
        const __m512i odd =
            _mm512_maskz_loadu_epi8(!apart || seen >> (j + 1) & 1 ? mask : 0, pool + at[1]);
        VF32_UNROLL
        for (int h = 0; h < halves; h++) {
            __m512i pairs[2];
            widen_codes(kv, table,
                        half + h ? _mm512_unpackhi_epi8(even, odd)
                                 : _mm512_unpacklo_epi8(even, odd),
                        pairs);
            VF32_UNROLL
            for (int r = 0; r < rows; r++)
                VF32_UNROLL
            for (int v = 0; v < 2; v++) {
                __m512 *sum = &sums[r * 2 * halves + 2 * h + v];
                *sum = add_pair(*sum, pairs[v], weight + r);
            }
        }
    }
    VF32_UNROLL
    for (int r = 0; r < rows; r++)
        VF32_UNROLL
    for (int v = 0; v < 2 * halves; v++)
        _mm512_storeu_ps(acc + r * CODE_GROUP + v * LANES, sums[r * 2 * halves + v]);
}

// The values of the block for the rows of block b.
INLINE void add_code_columns(const struct rows *s, weft_dtype kv, const struct code_table *table,
                             const int lanes, const int32_t dim, int32_t b, const bool ahead)
{
    for (int32_t g = 0; g < s->groups; g++) {
        if (lanes == 4) {
            add_codes(s, kv, table, lanes, dim, 4, 2, b, 0, g, 0, false, ahead);
            continue;
        }
        for (int first = 0; first < lanes && b * lanes + first < s->rows; first += VALUE_ROWS) {
            if (first == 0 && ahead)
                add_codes(s, kv, table, lanes, dim, VALUE_ROWS, 1, b, first, g, 0, false, true);
            else
                add_codes(s, kv, table, lanes, dim, VALUE_ROWS, 1, b, first, g, 0, false, false);
            add_codes(s, kv, table, lanes, dim, VALUE_ROWS, 1, b, first, g, 1, false, false);
        }
    }
}

INLINE bool is_wild_code(weft_dtype kv, __m512i codes)
{
    const __m512i bits = _mm512_set1_epi8(kv == WEFT_FP8_E4M3 ? 0x7f : 0x7c);
    return kv != WEFT_INT8 && _mm512_cmpeq_epi8_mask(_mm512_and_si512(codes, bits), bits) != 0;
}

// Columns of a row of results from the order of unpacking to their own.
INLINE void order_codes(const float *acc, float *to)
{
    const __m512 a = _mm512_loadu_ps(acc), b = _mm512_loadu_ps(acc + LANES);
    const __m512 c = _mm512_loadu_ps(acc + 2 * LANES), d = _mm512_loadu_ps(acc + 3 * LANES);
    const __m512 ab = _mm512_shuffle_f32x4(a, b, 0x44), cd = _mm512_shuffle_f32x4(c, d, 0x44);
    const __m512 more_ab = _mm512_shuffle_f32x4(a, b, 0xee);
    const __m512 more_cd = _mm512_shuffle_f32x4(c, d, 0xee);
    _mm512_storeu_ps(to, _mm512_shuffle_f32x4(ab, cd, 0x88));
    _mm512_storeu_ps(to + LANES, _mm512_shuffle_f32x4(ab, cd, 0xdd));
    _mm512_storeu_ps(to + 2 * LANES, _mm512_shuffle_f32x4(more_ab, more_cd, 0x88));
    _mm512_storeu_ps(to + 3 * LANES, _mm512_shuffle_f32x4(more_ab, more_cd, 0xdd));
}

#endif
