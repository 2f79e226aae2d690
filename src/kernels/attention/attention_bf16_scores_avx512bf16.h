// SPDX-License-Identifier: MIT
// Scores of rows over keys of bf16 by products of pairs. Part of attention_pairs_avx512bf16.c.
//
// Of 16 rows lanes are rows, which a pair of a key meets in all lanes. It comes there by loads that spread two pairs,
// which free shuffles take apart, and by loads that spread one, by turns: either alone would want more of the loads, or
// of the shuffles, than there are beside the products. Nothing is added up across lanes.
// Of four rows and of eight ("fours") a line of a key is spread four ways, every fourth pair four times, and meets the
// same pairs of four rows; the parts of 128 bits of a sum are added up. Shuffles across parts take a product's place,
// those within a part and blends do not.
//
// Heads of 64 and 128 are constants: what finds a line is as much work as its products else.
#ifndef WEFT_KERNELS_ATTENTION_BF16_SCORES_AVX512BF16_H
#define WEFT_KERNELS_ATTENTION_BF16_SCORES_AVX512BF16_H

#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_pairs_ask.h"

enum { MOST_KEYS = 8 }; // whose scores grow together

// Two elements wherever they lie, which a product loads itself.
typedef int32_t __attribute__((may_alias, aligned(1))) pair_anywhere;

// A line of four rows from row r on, to each part of 128 bits the rows' pair of the same number: part n of parts[i] has
// pair 4 n + i.
INLINE void load_line(uint32_t rows[4][WEFT__ATTENTION_MAX_DIM / 2], int32_t i, __m512i parts[4])
{
    __m512i two[4];
    VF32_UNROLL
    for (int n = 0; n < 2; n++) {
        const __m512i even = _mm512_loadu_si512(rows[2 * n] + i);
        const __m512i odd = _mm512_loadu_si512(rows[2 * n + 1] + i);
        two[n] = _mm512_unpacklo_epi32(even, odd);
        two[n + 2] = _mm512_unpackhi_epi32(even, odd);
    }
    VF32_UNROLL
    for (int h = 0; h < 2; h++) {
        parts[2 * h] = _mm512_unpacklo_epi64(two[2 * h], two[2 * h + 1]);
        parts[2 * h + 1] = _mm512_unpackhi_epi64(two[2 * h], two[2 * h + 1]);
    }
}

// Queries of a tile: of fours [four][line][pair % 4][pair / 4][row], of 16 rows [block][pair][row].
static inline void load_pairs(const struct rows *s, const int lanes)
{
    for (int32_t r = 0; r < s->blocks * lanes; r += 4) {
        uint32_t rows[4][WEFT__ATTENTION_MAX_DIM / 2];
        for (int n = 0; n < 4; n++)
            pairs_of_query(s, r + n, rows[n]);
        for (int32_t i = 0; i < s->pairs; i += LINE_PAIRS) {
            __m512i parts[4];
            load_line(rows, i, parts);
            uint32_t *q = s->q + (int64_t)(r / lanes) * s->pairs * lanes + i * lanes + r % lanes;
            VF32_UNROLL
            for (int n = 0; n < 4; n++)
                if (lanes == FEW)
                    _mm512_storeu_si512(q + n * LANES, parts[n]);
                else {
                    _mm_storeu_si128((void *)(q + n * LANES),
                                     _mm512_extracti32x4_epi32(parts[n], 0));
                    _mm_storeu_si128((void *)(q + (4 + n) * LANES),
                                     _mm512_extracti32x4_epi32(parts[n], 1));
                    _mm_storeu_si128((void *)(q + (8 + n) * LANES),
                                     _mm512_extracti32x4_epi32(parts[n], 2));
                    _mm_storeu_si128((void *)(q + (12 + n) * LANES),
                                     _mm512_extracti32x4_epi32(parts[n], 3));
                }
        }
    }
}

// Asks for what the scores of keys at[] need soon at line i of a row, or for what the next block does: in order of address
// where MOST_KEYS lines are whole rows. Key `n`, and behind those of MOST_KEYS keys what is for the next block; of up to
// eight rows further ahead (ask_near()).
INLINE void ask_key(const int rows, const int32_t dim, const char *pool, const int64_t *at,
                    int32_t i, const int n)
{
    if (n < MOST_KEYS)
        ask_near(rows, pool, at + n, i * GROUP);
    else if (dim)
        ask_far(pool, at + FAR + i * MOST_KEYS / (dim / GROUP), dim, n - MOST_KEYS);
    else
        __builtin_prefetch(pool + 2 * (at[FAR + n - MOST_KEYS] + i * GROUP), 0, 2);
}

INLINE void ask_keys(const int rows, const int32_t dim, const char *pool, const int64_t *at,
                     int32_t i)
{
    VF32_UNROLL
    for (int n = 0; n < MOST_KEYS; n++) {
        ask_key(rows, dim, pool, at, i, n);
        ask_key(rows, dim, pool, at, i, MOST_KEYS + n);
    }
}

// sums[pair % 2][key] += the products of 16 rows with quad `n` of the pairs of line `line`. keys[] is where the line's are.
INLINE void score_quad(const int32_t dim, const uint32_t *q, const char *pool, const int64_t *at,
                       const char *const keys[MOST_KEYS], int32_t line, const int n,
                       const bool ahead, __m512 sums[2][MOST_KEYS])
{
    VF32_UNROLL
    for (int h = 0; h < 2; h++) {
        const uint32_t *of_pairs = q + (line * LINE_PAIRS + 4 * n + 2 * h) * LANES;
        __m512i even = _mm512_loadu_si512(of_pairs), odd = _mm512_loadu_si512(of_pairs + LANES);
        WEFT__IN_REGISTER(even);
        WEFT__IN_REGISTER(odd);
        VF32_UNROLL
        for (int j = 0; j < MOST_KEYS; j++) {
            const char *k = keys[j] + line * 4 * LINE_PAIRS + 16 * n + 8 * h;
            __m512i x, y;
            if (ahead && j % 4 == 1)
                ask_key(LANES, dim, pool, at, line, (2 * n + h) * 2 + j / 4);
            if (h == 0) {
                __m512i both = _mm512_broadcastq_epi64(_mm_loadu_si64(k));
                WEFT__IN_REGISTER(both);
                x = spread(both, 0);
                y = spread(both, 1);
            } else {
                x = _mm512_set1_epi32(*(const pair_anywhere *)(const void *)k);
                y = _mm512_set1_epi32(*(const pair_anywhere *)(const void *)(k + 4));
            }
            sums[0][j] = _mm512_dpbf16_ps(sums[0][j], (__m512bh)even, (__m512bh)x);
            sums[1][j] = _mm512_dpbf16_ps(sums[1][j], (__m512bh)odd, (__m512bh)y);
        }
    }
}

// Scores of the MOST_KEYS keys at[] of `pairs` pairs, times `scale`, of 16 rows.
INLINE void score_keys_of_many(const int32_t dim, int32_t pairs, const uint32_t *q,
                               const char *pool, const int64_t *at, float scale, float *scores,
                               const bool ahead)
{
    const char *keys[MOST_KEYS];
    __m512 sums[2][MOST_KEYS];
    VF32_UNROLL
    for (int j = 0; j < MOST_KEYS; j++) {
        keys[j] = pool + 2 * at[j];
        __asm__("" : "+r"(keys[j])); // else loads are counted from the pool, an operation more
        sums[0][j] = sums[1][j] = _mm512_setzero_ps();
    }
    const int32_t whole = (dim ? dim / 2 : pairs) / LINE_PAIRS;
    for (int32_t line = 0; line < whole; line++) {
        VF32_UNROLL
        for (int n = 0; n < LINE_PAIRS / 4; n++)
            score_quad(dim, q, pool, at, keys, line, n, ahead, sums);
    }
    if (ahead && whole * LINE_PAIRS < pairs)
        ask_keys(LANES, dim, pool, at, whole);
    for (int32_t n = 0; !dim && whole * LINE_PAIRS + 4 * n < pairs; n++)
        score_quad(dim, q, pool, at, keys, whole, n, false, sums);
    VF32_UNROLL
    for (int j = 0; j < MOST_KEYS; j++)
        _mm512_storeu_ps(scores + j * LANES,
                         vf32_mul(vf32_set1(scale), vf32_add(sums[0][j], sums[1][j])));
}

// Of the block. Heads are multiples of 8 elements.
INLINE void score_many(const struct rows *s, const int32_t dim, int32_t b, float scale,
                       const bool ahead)
{
    const int32_t pairs = s->call->k.dim / 2, n = s->block->n;
    const uint32_t *q = s->q + (int64_t)b * s->pairs * LANES;
    const char *pool = s->call->k.data;
    const int64_t *at = s->at;
    float *scores = s->scores;
    for (int32_t key = 0; key < n; key += MOST_KEYS)
        score_keys_of_many(dim, pairs, q, pool, at + key, scale, scores + key * LANES, ahead);
}

// sums[key][four] += their products with a line of pairs, from pair `i` on.
INLINE void score_line(const int fours, const uint32_t *q, int64_t stride, const char *pool,
                       const int64_t *at, int32_t i, __mmask16 mask, __m512 *sums)
{
    __m512i k[MOST_KEYS];
    VF32_UNROLL
    for (int j = 0; j < MOST_KEYS; j++)
        k[j] = mask == 0xffff ? _mm512_loadu_si512(pool + 2 * at[j] + 4 * i)
                              : _mm512_maskz_loadu_epi32(mask, pool + 2 * at[j] + 4 * i);
    VF32_UNROLL
    for (int part = 0; part < 4; part++) {
        __m512i x[2];
        VF32_UNROLL
        for (int f = 0; f < fours; f++) {
            x[f] = _mm512_loadu_si512(q + f * stride + i * 4 + part * LANES);
            WEFT__IN_REGISTER(x[f]);
        }
        VF32_UNROLL
        for (int j = 0; j < MOST_KEYS; j++) {
            const __m512bh y = (__m512bh)spread(k[j], part);
            VF32_UNROLL
            for (int f = 0; f < fours; f++)
                sums[j * fours + f] = _mm512_dpbf16_ps(sums[j * fours + f], (__m512bh)x[f], y);
        }
    }
}

// Scores of MOST_KEYS keys from `key` on of the block, times `scale`, of one or two fours.
INLINE void score_keys(const struct rows *s, const int fours, const int32_t dim, const uint32_t *q,
                       int32_t key, float scale, const bool ahead)
{
    const char *pool = s->call->k.data;
    const int64_t *at = s->at + key;
    const int32_t pairs = (dim ? dim : s->call->k.dim) / 2;
    const int64_t stride = dim ? 2 * dim : (int64_t)s->pairs * 4;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512 sums[16];
    VF32_UNROLL
    for (int i = 0; i < MOST_KEYS * fours; i++)
        sums[i] = _mm512_setzero_ps();
    int32_t i = 0;
    for (; i + LINE_PAIRS <= pairs; i += LINE_PAIRS) {
        if (ahead)
            ask_keys(4 * fours, dim, pool, at, i / LINE_PAIRS);
        score_line(fours, q, stride, pool, at, i, 0xffff, sums);
    }
    if (ahead && i < pairs)
        ask_keys(4 * fours, dim, pool, at, i / LINE_PAIRS);
    if (i < pairs)
        score_line(fours, q, stride, pool, at, i, vf32_first(pairs - i), sums);
    VF32_UNROLL
    for (int f = 0; f < fours; f++)
        VF32_UNROLL
    for (int j = 0; j < MOST_KEYS; j += 4) {
        const __m512 *k = sums + j * fours + f;
        const __m512 x = add_four_parts(k[0], k[fours], k[2 * fours], k[3 * fours]);
        _mm512_storeu_ps(s->scores + (f * BLOCK + key + j) * 4,
                         vf32_mul(vf32_set1(scale), _mm512_permutexvar_ps(order, x)));
    }
}

#endif
