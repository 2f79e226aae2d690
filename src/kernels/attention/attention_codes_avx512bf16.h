// SPDX-License-Identifier: MIT
// Products of pairs over codes of a byte: int8, fp8_e4m3 and fp8_e5m2 become bf16 in registers
// (attention_widen_avx512.h), and the softmax and queries of all pairs. Part of attention_pairs_avx512bf16.c;
// attention_few_amx.c takes the softmax.
//
//      keys     of two, 32 codes -> 2 vectors: in each part of 128 bits, codes 0..7 and 8..15 of 16. Queries lie alike.
//               For 16 rows of one, 64 codes -> the same
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

INLINE __m512 add_pair(__m512 sum, __m512i values, __m512i weights)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)values, (__m512bh)weights);
}

// Weights of two keys and one row, for all columns. Once: loaded once for what they meet, else by the products
// themselves.
INLINE __m512i weights_of(const uint32_t *weight, const bool once)
{
    __m512i weights = _mm512_set1_epi32((int32_t)*weight);
    if (once)
        WEFT__IN_REGISTER(weights);
    return weights;
}

INLINE void load_weights(const uint32_t *weight, const int rows, const bool once,
                         __m512i weights[VALUE_ROWS])
{
    VF32_UNROLL
    for (int r = 0; r < rows; r++)
        weights[r] = weights_of(weight + r, once);
}

// The pairs of a query to their places.
static inline void place_query(const struct rows *s, const int lanes, int32_t r,
                               const uint32_t *row)
{
    uint32_t *q = s->q + (int64_t)(r / lanes) * s->pairs * lanes;
    for (int32_t i = 0; i < s->call->k.dim / 2; i++)
        q[place_of_pair(lanes, r % lanes, i)] = row[i];
}

// The query of row r, or zeros, in s->pairs pairs of bf16 with zeros behind: it is bf16, or is rounded to it.
static inline void pairs_of_query(const struct rows *s, int32_t r, uint32_t *row)
{
    const struct weft__attention_call *call = s->call;
    const int32_t pairs = r < s->rows ? call->k.dim / 2 : 0;
    float wide[WEFT__ATTENTION_MAX_DIM];
    memset(row + pairs, 0, (size_t)(s->pairs - pairs) * sizeof *row);
    if (pairs == 0)
        return;
    if (call->q_dtype == WEFT_BF16 && !call->q_scales) {
        const int64_t token = call->lengths.cu_q_lens[s->tile->seq] +
                              (int64_t)weft__attention_token(call, s->tile, r);
        const int64_t at = token * call->q_token_stride +
                           weft__attention_head(call, s->tile, r) * call->q_head_stride;
        memcpy(row, (const uint16_t *)call->q + at, (size_t)pairs * sizeof *row);
        return;
    }
    weft__attention_query(call, s->tile, r, wide);
    for (int32_t i = 0; i < 2 * pairs; i += 2 * LANES) {
        const int left = 2 * pairs - i, first = left < LANES ? left : LANES;
        const int second = left < 2 * LANES ? left - first : LANES;
        const __m512i two = (__m512i)_mm512_cvtne2ps_pbh(vf32_load_n(wide + i + first, second),
                                                         vf32_load_n(wide + i, first));
        _mm512_mask_storeu_epi32(row + i / 2, vf32_first(left < 2 * LANES ? left / 2 : LANES), two);
    }
}

// Queries of a tile over codes, each pair to its place.
static inline void load_queries(const struct rows *s, const int lanes)
{
    memset(s->q, 0, (size_t)s->blocks * (size_t)(s->pairs * lanes) * sizeof *s->q);
    for (int32_t r = 0; r < s->rows; r++) {
        uint32_t row[WEFT__ATTENTION_MAX_DIM / 2];
        pairs_of_query(s, r, row);
        place_query(s, lanes, r, row);
    }
}

// What scores are weighed against: rows that see nothing have -infinity.
INLINE __m512 finite_or_0(__m512 largest)
{
    const __mmask16 none = _mm512_cmp_ps_mask(largest, vf32_set1(-INFINITY), _CMP_EQ_OQ);
    return _mm512_mask_blend_ps(none, largest, _mm512_setzero_ps());
}

// 2^f, 0 <= f <= 1: a polynomial whose relative error is below 2^-28.8, constant term 1.
enum { WEIGHT_TERMS = 7 };
static const float WEIGHT_TERM[WEIGHT_TERMS] = {0x1.c5417ap-13f,
                                                0x1.46d64ap-10f,
                                                0x1.3d0b92p-7f,
                                                0x1.c68912p-5f,
                                                0x1.ebfd58p-3f,
                                                0x1.62e42cp-1f,
                                                1};

// 2^x of each, within 1.1 units in the last place of 1; -infinity gives 0, NaN gives NaN: what is left of x above the
// integer below it, of an infinity 0, and scaling by that integer need no bounds and fewer operations than
// vf32_exp2_all().
INLINE void exp2_of_scores(__m512 x[STEP])
{
    __m512 f[STEP], p[STEP];
    VF32_UNROLL
    for (int i = 0; i < STEP; i++) {
        f[i] = _mm512_reduce_ps(x[i], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
        p[i] = vf32_set1(WEIGHT_TERM[0]);
    }
    VF32_UNROLL
    for (int t = 1; t < WEIGHT_TERMS; t++)
        vf32_fma_all(p, f, WEIGHT_TERM[t]);
    VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        x[i] = _mm512_scalef_ps(p[i], x[i]);
}

// STEP vectors of scores, from vector v on, to pairs of weights, whose sums join total[]. Of f16 two parts of each.
INLINE void weigh_vectors(const struct rows *s, const int parts, int v, const float *scores,
                          __m512 from, __m512i order, __m512 total[STEP], uint32_t *weight)
{
    __m512 p[STEP];
    VF32_UNROLL
    for (int i = 0; i < STEP; i++)
        p[i] = vf32_sub(_mm512_loadu_ps(scores + i * LANES), from);
    exp2_of_scores(p);
    VF32_UNROLL
    for (int i = 0; i < STEP; i++) {
        total[i] = vf32_add(total[i], p[i]);
        if (s->scaled)
            p[i] = scale_weights(p[i], _mm512_loadu_ps(scores + i * LANES),
                                 _mm512_loadu_ps(s->value_scale + (v + i) * LANES));
    }
    VF32_UNROLL
    for (int i = 0; i < STEP; i += 2) {
        struct parts two = {.most = (__m512i)_mm512_cvtne2ps_pbh(p[i + 1], p[i])};
        if (parts == 2) {
            two = parts_of(p[i], p[i + 1], 0x8000); // what is left of a weight is rounded
            _mm512_storeu_si512(rest_of_weights(s) + (v + i) / 2 * LANES,
                                _mm512_permutexvar_epi16(order, two.rest));
        }
        _mm512_storeu_si512(weight + i / 2 * LANES, _mm512_permutexvar_epi16(order, two.most));
    }
}

// Scores of `blocks` blocks of rows from block b on to weights and what the rows have come to: the online softmax.
INLINE void weigh_lanes(const struct rows *s, const int lanes, const int parts, const int blocks,
                        int32_t b)
{
    const __m512i order = _mm512_loadu_si512(s->order);
    const int vectors = BLOCK * lanes / LANES;
    VF32_UNROLL
    for (int i = 0; i < blocks; i++, b++) {
        const float *scores = s->scores + i * BLOCK * lanes;
        uint32_t *weight = s->weight + (int64_t)b * PAIRS * lanes;
        const __m512 before = _mm512_loadu_ps(s->largest + b * LANES);
        __m512 top[STEP], total[STEP];
        VF32_UNROLL
        for (int n = 0; n < STEP; n++) {
            top[n] = before;
            total[n] = _mm512_setzero_ps();
        }
        for (int v = 0; v < vectors; v += STEP)
            VF32_UNROLL
        for (int n = 0; n < STEP; n++)
            top[n] = vf32_max(top[n], _mm512_loadu_ps(scores + (v + n) * LANES));
        const __m512 largest =
            over_keys(lanes, vf32_max(vf32_max(top[0], top[1]), vf32_max(top[2], top[3])), true);
        const __m512 from = finite_or_0(largest);
        for (int v = 0; v < vectors; v += STEP)
            weigh_vectors(s, parts, v, scores + v * LANES, from, order, total,
                          weight + v / 2 * LANES);
        const __m512 shrink = vf32_exp2(vf32_sub(before, from));
        const __m512 sum = over_keys(
            lanes, vf32_add(vf32_add(total[0], total[1]), vf32_add(total[2], total[3])), false);
        _mm512_storeu_ps(s->shrink + b * LANES, shrink);
        _mm512_storeu_ps(s->sum + b * LANES,
                         vf32_fma(_mm512_loadu_ps(s->sum + b * LANES), shrink, sum));
        _mm512_storeu_ps(s->largest + b * LANES, largest);
    }
}

// Functions of their own, so that products have the registers that constants of the exponential would keep.
#define WEIGH(name, lanes, parts, blocks)                                                          \
    static __attribute__((noinline, unused)) void weigh_##name(const struct rows *s, int32_t b)    \
    {                                                                                              \
        weigh_lanes(s, lanes, parts, blocks, b);                                                   \
    }

WEIGH(4, 4, 1, 1)
WEIGH(two_fours, 4, 1, 2)
WEIGH(8, 8, 1, 1)
WEIGH(16, 16, 1, 1)
WEIGH(8_parts, 8, 2, 1)
WEIGH(16_parts, 16, 2, 1)

// Of one block, or of two of four rows.
INLINE void weigh(const struct rows *s, const int lanes, int32_t b, int32_t blocks)
{
    (blocks == 2 ? weigh_two_fours : lanes == 4 ? weigh_4 : lanes == 8 ? weigh_8 : weigh_16)(s, b);
}

// Pair `part` of every four.
INLINE __m512i spread(__m512i pairs, const int part)
{
    switch (part) {
    case 0: return _mm512_shuffle_epi32(pairs, 0x00);
    case 1: return _mm512_shuffle_epi32(pairs, 0x55);
    case 2: return _mm512_shuffle_epi32(pairs, 0xaa);
    default: return _mm512_shuffle_epi32(pairs, 0xff);
    }
}

// sums[key][four rows] += the products of 16 rows with 16 pairs of KEY_SCORES / LANES keys.
INLINE void score_pairs(const uint32_t *q, const __m512i *k, __m512 *sums)
{
    VF32_UNROLL
    for (int part = 0; part < 4; part++) {
        __m512i x[4];
        VF32_UNROLL
        for (int i = 0; i < 4; i++) {
            x[i] = _mm512_loadu_si512(q + (part * 4 + i) * LANES);
            WEFT__IN_REGISTER(x[i]);
        }
        VF32_UNROLL
        for (int j = 0; j < KEY_SCORES / LANES; j++) {
            const __m512bh y = (__m512bh)spread(k[j], part);
            VF32_UNROLL
            for (int i = 0; i < 4; i++)
                sums[j * 4 + i] = _mm512_dpbf16_ps(sums[j * 4 + i], (__m512bh)x[i], y);
        }
    }
}

// The parts of 128 bits of four sums added up: part i is what sum i comes to. Blends cost nothing beside products,
// shuffles across parts do.
INLINE __m512 add_four_parts(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ac =
        vf32_add(_mm512_mask_blend_ps(0xff00, a, c), _mm512_shuffle_f32x4(a, c, 0x4e));
    const __m512 bd =
        vf32_add(_mm512_mask_blend_ps(0xff00, b, d), _mm512_shuffle_f32x4(b, d, 0x4e));
    const __m512 others = _mm512_mask_blend_ps(0xf0f0, bd, ac);
    return vf32_add(_mm512_mask_blend_ps(0xf0f0, ac, bd),
                    _mm512_shuffle_f32x4(others, others, 0xb1));
}

// The sums of KEY_SCORES / LANES keys from `key` on of the block become scores, times `scale`.
INLINE void store_scores(const struct rows *s, int32_t key, float scale,
                         const __m512 sums[KEY_SCORES / 4])
{
    VF32_UNROLL
    for (int v = 0; v < KEY_SCORES / LANES; v++) {
        const __m512 *k = sums + 4 * v;
        _mm512_storeu_ps(s->scores + (key + v) * LANES,
                         vf32_mul(vf32_set1(scale), add_four_parts(k[0], k[1], k[2], k[3])));
    }
}

// Codes [column, column + 32) of two keys, those that there are.
INLINE __m512i load_two(const char *pool, const int64_t at[2], const int32_t dim, int32_t column)
{
    __m256i codes[2];
    VF32_UNROLL
    for (int j = 0; j < 2; j++) {
        const char *from = pool + at[j] + column;
        const int32_t left = dim - column;
        const __mmask32 mask = left < TWO_CODES ? (1u << left) - 1 : UINT32_MAX;
        codes[j] = __builtin_constant_p(dim) && dim % TWO_CODES == 0
                       ? _mm256_loadu_si256((const void *)from)
                       : _mm256_maskz_loadu_epi8(mask, from);
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(codes[0]), codes[1], 1);
}

// The lanes of sums[two keys][row], eight of them, added up: in parts of 128 bits, of four sums each, keys take turns.
INLINE __m512 add_eight(const __m512 sums[UNIT_SUMS])
{
    __m512 pairs[4], quads[2];
    VF32_UNROLL
    for (int i = 0; i < 4; i++)
        pairs[i] = vf32_add(_mm512_unpacklo_ps(sums[2 * i], sums[2 * i + 1]),
                            _mm512_unpackhi_ps(sums[2 * i], sums[2 * i + 1]));
    VF32_UNROLL
    for (int i = 0; i < 2; i++)
        quads[i] = vf32_add(_mm512_shuffle_ps(pairs[2 * i], pairs[2 * i + 1], 0x44),
                            _mm512_shuffle_ps(pairs[2 * i], pairs[2 * i + 1], 0xee));
    return vf32_add(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88),
                    _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
}

// The same of 16 sums, to two vectors of scores.
INLINE void add_lanes_of_codes(const int lanes, const __m512 sums[2 * UNIT_SUMS], __m512 x[2])
{
    const __m512 a = add_eight(sums), b = add_eight(sums + UNIT_SUMS);
    const __m512i order =
        lanes == 4 ? _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                   : _mm512_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    if (lanes == LANES) {
        x[0] = _mm512_shuffle_f32x4(a, b, 0x88);
        x[1] = _mm512_shuffle_f32x4(a, b, 0xdd);
    } else {
        x[0] = _mm512_permutexvar_ps(order, a);
        x[1] = _mm512_permutexvar_ps(order, b);
    }
}

// sums[two keys][row] += their products with the codes of code_step() keys from `column` on.
INLINE void score_codes_of(weft_dtype kv, const struct code_table *table, const int lanes,
                           const uint32_t *q, const char *pool, const int64_t *at,
                           const int32_t dim, int32_t column, __m512 *sums)
{
    const int pairs = code_step(lanes) / 2;
    __m512i halves[4][2];
    VF32_UNROLL
    for (int i = 0; i < pairs; i++)
        widen_codes(kv, table, load_two(pool, at + 2 * i, dim, column), halves[i]);
    VF32_UNROLL
    for (int h = 0; h < 2; h++)
        VF32_UNROLL
    for (int r = 0; r < lanes; r++) {
        const void *pairs_of_row = q + (h * lanes + r) * TWO_PAIRS;
        const __m512bh x = (__m512bh)_mm512_broadcast_i64x4(_mm256_loadu_si256(pairs_of_row));
        VF32_UNROLL
        for (int i = 0; i < pairs; i++) {
            __m512 *sum = &sums[i * lanes + r];
            *sum = _mm512_dpbf16_ps(*sum, (__m512bh)halves[i][h], x);
        }
    }
}

// Scores of code_step() keys from `key` on of the block, times `scale`: two vectors. Codes of two keys are a
// vector, so that fewer lanes are to be added up.
INLINE void score_codes(const struct rows *s, weft_dtype kv, const struct code_table *table,
                        const int lanes, const int32_t dim, const uint32_t *q, int32_t key,
                        float scale, const bool ahead)
{
    const int keys = code_step(lanes);
    const char *pool = s->call->k.data;
    const int64_t *at = s->at + key;
    __m512 sums[2 * UNIT_SUMS];
    VF32_UNROLL
    for (int i = 0; i < 2 * UNIT_SUMS; i++)
        sums[i] = _mm512_setzero_ps();
    for (int32_t column = 0; column < dim; column += TWO_CODES, q += 2 * lanes * TWO_PAIRS) {
        if (ahead && column % CODE_GROUP == 0)
            VF32_UNROLL
        for (int j = 0; j < keys; j++)
            ask_codes(pool, at + j, column);
        score_codes_of(kv, table, lanes, q, pool, at, dim, column, sums);
    }
    __m512 x[2];
    add_lanes_of_codes(lanes, sums, x);
    VF32_UNROLL
    for (int i = 0; i < 2; i++)
        _mm512_storeu_ps(s->scores + (key * lanes / LANES + i) * LANES,
                         vf32_mul(vf32_set1(scale), x[i]));
}

// The same of KEY_SCORES / LANES keys for 16 rows, which are worth a vector of one key: of 64 codes, in each
// part of 128 bits those from 16 part on, 0..7 and 8..15.
INLINE void score_codes_of_many(const struct rows *s, weft_dtype kv, const struct code_table *table,
                                const int32_t dim, const uint32_t *q, int32_t key, float scale,
                                const bool ahead)
{
    const char *pool = s->call->k.data;
    const int64_t *at = s->at + key;
    __m512 sums[KEY_SCORES / 4];
    VF32_UNROLL
    for (int i = 0; i < KEY_SCORES / 4; i++)
        sums[i] = _mm512_setzero_ps();
    for (int32_t column = 0; column < dim; column += CODE_GROUP) {
        __m512i halves[KEY_SCORES / LANES][2], k[2][KEY_SCORES / LANES];
        VF32_UNROLL
        for (int j = 0; j < KEY_SCORES / LANES; j++) {
            if (ahead)
                ask_codes(pool, at + j, column);
            widen_codes(kv, table, load_codes(pool + at[j] + column, dim, column), halves[j]);
            k[0][j] = halves[j][0];
            k[1][j] = halves[j][1];
        }
        VF32_UNROLL
        for (int h = 0; h < 2; h++, q += LINE_PAIRS * LANES)
            score_pairs(q, k[h], sums);
    }
    store_scores(s, key, scale, sums);
}

// acc[row][columns] = acc * shrink + weight * value for `rows` rows of a block of rows from row `first` on, and 32
// columns of group `g` from half `half` on, `halves` times. `apart`: a row alone, for which keys that it does not see
// have values of 0.
INLINE void add_codes(const struct rows *s, weft_dtype kv, const struct code_table *table,
                      const int lanes, const int32_t dim, const int rows, const int halves,
                      int32_t b, int first, int32_t g, const int half, const bool apart,
                      const bool ahead)
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
        __m512i weights[VALUE_ROWS];
        load_weights(weight, rows, true, weights);
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
                *sum = add_pair(*sum, pairs[v], weights[r]);
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

#endif
