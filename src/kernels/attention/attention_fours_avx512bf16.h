// SPDX-License-Identifier: MIT
// Products of pairs over keys and values of bf16. Part of attention_pairs_avx512bf16.c.
//
// Scores of 16 rows: lanes are rows, which a pair of a key meets in all lanes. It comes there by loads that spread two
// pairs, which free shuffles take apart, and by loads of the products themselves, by turns: either alone would want more
// of the loads, or of the shuffles, than there are beside the products. Nothing is added up across lanes.
// Scores of four rows and of eight ("fours"): a line of a key is spread four ways, every fourth pair four times, and
// meets the same pairs of four rows; the parts of 128 bits of a sum are added up. Shuffles across parts take a product's
// place, those within a part and blends do not.
// Results: a pair of keys, 32 columns, meets the weights of a row, eight rows together.
//
// Heads of 64 and 128 are constants: what finds a line is as much work as its products else.
#ifndef WEFT_KERNELS_ATTENTION_FOURS_AVX512BF16_H
#define WEFT_KERNELS_ATTENTION_FOURS_AVX512BF16_H

#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_pairs_ask.h"

enum {
    FEW = 4,         // lanes of the rows of a four
    MOST_KEYS = 8,   // whose scores grow together
    VALUE_FOURS = 2, // of whose rows results grow together
    VALUE_KEYS = 8,  // of a step of their loop
};

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

// Asks for line n of those of the rows at[] of `dim` elements, in order of address, for L2.
INLINE void ask_far(const char *pool, const int64_t *at, const int32_t dim, const int32_t n)
{
    const int32_t lines = dim / GROUP;
    __builtin_prefetch(pool + 2 * (at[n / lines] + n % lines * GROUP), 0, 2);
}

// Asks for what the scores of MOST_KEYS keys need soon, and what the next block does, at line `i` of keys at[]. `near`
// says how many rows there are.
INLINE void ask_keys(const int near, const int32_t dim, const char *pool, const int64_t *at,
                     int32_t i, struct line *line)
{
    VF32_UNROLL
    for (int j = 0; j < MOST_KEYS; j++) {
        ask_near(near, pool, at + j, i * GROUP);
        if (dim)
            ask_far(pool, at + BLOCK + i * MOST_KEYS / (dim / GROUP), dim, j);
        else
            ask_line(pool, line);
    }
}

// The same, by sixteenths: what comes beside the products of half a quad of pairs and four keys.
INLINE void ask_sixteenth(const int32_t dim, const char *pool, const int64_t *at, int32_t i,
                          const int n)
{
    if (n < MOST_KEYS)
        ask_near(LANES, pool, at + n, i * GROUP);
    else
        ask_far(pool, at + BLOCK + i * MOST_KEYS / (dim / GROUP), dim, n - MOST_KEYS);
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
                ask_sixteenth(dim, pool, at, line, (2 * n + h) * 2 + j / 4);
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
    struct line far = {at + BLOCK, 0, (pairs + LINE_PAIRS - 1) / LINE_PAIRS * GROUP};
    const char *keys[MOST_KEYS];
    __m512 sums[2][MOST_KEYS];
    VF32_UNROLL
    for (int j = 0; j < MOST_KEYS; j++) {
        keys[j] = pool + 2 * at[j];
        __asm__(""
                : "+r"(keys[j])); // else they are counted from the pool, one operation more a load
        sums[0][j] = sums[1][j] = _mm512_setzero_ps();
    }
    for (int32_t line = 0; line * LINE_PAIRS < (dim ? dim / 2 : pairs); line++) {
        if (ahead && !dim)
            ask_keys(LANES, dim, pool, at, line, &far);
        VF32_UNROLL
        for (int n = 0; n < LINE_PAIRS / 4; n++)
            if (dim || line * LINE_PAIRS + 4 * n < pairs)
                score_quad(dim, q, pool, at, keys, line, n, ahead && dim, sums);
    }
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
        __m512i x[VALUE_FOURS];
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

// Scores of keys_of() keys from `key` on of the block, times `scale`.
INLINE void score_keys(const struct rows *s, const int fours, const int32_t dim, const uint32_t *q,
                       int32_t key, float scale, const bool ahead)
{
    const char *pool = s->call->k.data;
    const int64_t *at = s->at + key;
    const int32_t pairs = (dim ? dim : s->call->k.dim) / 2;
    const int64_t stride = dim ? 2 * dim : (int64_t)s->pairs * 4;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    struct line line = {at + BLOCK, 0, s->pairs * 2};
    __m512 sums[16];
    VF32_UNROLL
    for (int i = 0; i < MOST_KEYS * fours; i++)
        sums[i] = _mm512_setzero_ps();
    for (int32_t i = 0; i < pairs; i += LINE_PAIRS) {
        if (ahead)
            ask_keys(4 * fours, dim, pool, at, i / LINE_PAIRS, &line);
        score_line(fours, q, stride, pool, at, i,
                   dim ? 0xffff : vf32_first(pairs - i < LINE_PAIRS ? pairs - i : LINE_PAIRS),
                   sums);
    }
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

// Which of the columns from `column` on of a value there are.
INLINE __mmask32 columns_from(const struct rows *s, int32_t column)
{
    const int32_t rest = s->call->v.dim - column;
    return rest >= GROUP ? 0xffffffffu : (1u << rest) - 1;
}

INLINE __m512i load_value(const struct rows *s, int32_t key, int32_t column, __mmask32 mask)
{
    return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)(const void *)s->call->v.data +
                                              s->values_at[key] + column);
}

// Results of `fours` blocks of rows from b on, and `groups` times 32 columns from group g on.
struct results {
    float *acc;
    int64_t stride, next; // floats from a group to the next, from a block to the next
};

INLINE float *result(const struct results *to, int i, int r)
{
    return to->acc + i * to->stride + r / 4 * to->next + r % 4 * GROUP;
}

// What of the next block's values is asked for beside those of two keys, the ones from j on.
INLINE void ask_values(const struct rows *s, const int near, const int32_t dim, int32_t j,
                       int32_t g, const int n, const int all, const enum asking asks,
                       struct line *line)
{
    const char *pool = s->call->v.data;
    const int lines = asks == ALL ? 2 : 1; // a pair of keys
    if (asks == ALL || asks == FIRST_HALF)
        VF32_UNROLL
    for (int i = 0; i < 2; i++)
        ask_near(near, pool, s->values_at + j + i, g * GROUP);
    VF32_UNROLL
    for (int i = 0; i < lines && asks != NOTHING; i++)
        if (dim)
            ask_far(pool, line->at + j / VALUE_KEYS * (all * lines / (dim / GROUP)), dim,
                    n * lines + i);
        else
            ask_line(pool, line);
}

// Where the pair of weights of keys 0 and 1 and of row r of four b is, that of the next two keys is 4 * lanes bytes on.
INLINE const uint32_t *weight_of(const struct rows *s, const int lanes, int32_t b, int r)
{
    const uint32_t *of_block = s->weight + (int64_t)(b / (lanes / 4)) * PAIRS * lanes;
    return lanes == LANES ? of_block + b % 4 * 4 + r : of_block + r / 4 * PAIRS * 4 + r % 4;
}

// The place of row r of four b in what there is of rows.
INLINE int32_t place_of_row(const int lanes, int32_t b, int r)
{
    return lanes == LANES ? b * 4 + r : (b + r / 4) * LANES + lane_of(4, r % 4);
}

// acc[row][columns] = acc * shrink + weight * value for `fours` fours from four b on, and `groups` times 32 columns
// from group g on. Past the last key of the block weights are 0.
INLINE void add_values(const struct rows *s, const int lanes, const int fours, const int groups,
                       const int32_t dim, int32_t b, int32_t g, const enum asking asks)
{
    const int rows = 4 * fours;
    const int32_t all = dim ? dim / GROUP : s->groups;
    const struct results to = {s->acc + ((int64_t)b * all + g) * 4 * GROUP, 4 * GROUP,
                               (int64_t)all * 4 * GROUP};
    const uint32_t *weight = weight_of(s, lanes, b, 0);
    __m512 sums[16];
    __mmask32 mask[2];
    VF32_UNROLL
    for (int i = 0; i < groups; i++) {
        mask[i] = columns_from(s, (g + i) * GROUP);
        VF32_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m512 shrink = vf32_set1(s->shrink[place_of_row(lanes, b, r)]);
            VF32_UNROLL
            for (int h = 0; h < 2; h++)
                sums[(i * rows + r) * 2 + h] =
                    vf32_mul(shrink, _mm512_loadu_ps(result(&to, i, r) + h * LANES));
        }
    }
    struct line line = first_line(s, asks, g);
    for (int32_t j = 0; j < s->block->n; j += VALUE_KEYS, weight += VALUE_KEYS / 2 * lanes)
        VF32_UNROLL
    for (int p = 0; p < VALUE_KEYS / 2; p++) {
        __m512i weights[4 * VALUE_FOURS];
        VF32_UNROLL
        for (int r = 0; r < rows; r++)
            weights[r] = weights_of(
                weight + (lanes == LANES ? r : r / 4 * PAIRS * 4 + r % 4) + p * lanes, true);
        VF32_UNROLL
        for (int i = 0; i < groups; i++) {
            const int32_t column = (g + i) * GROUP, key = j + 2 * p;
            const uint16_t *v = (const uint16_t *)(const void *)s->call->v.data + column;
            ask_values(s, lanes == LANES ? LANES : rows, dim, key, g + i, p * groups + i,
                       VALUE_KEYS / 2 * groups, asks, &line);
            const __m512i even = dim ? _mm512_loadu_si512(v + s->values_at[key])
                                     : load_value(s, key, column, mask[i]);
            const __m512i odd = dim ? _mm512_loadu_si512(v + s->values_at[key + 1])
                                    : load_value(s, key + 1, column, mask[i]);
            const __m512i low = _mm512_unpacklo_epi16(even, odd);
            const __m512i high = _mm512_unpackhi_epi16(even, odd);
            VF32_UNROLL
            for (int r = 0; r < rows; r++) {
                __m512 *sum = sums + (i * rows + r) * 2;
                sum[0] = add_pair(sum[0], low, weights[r]);
                sum[1] = add_pair(sum[1], high, weights[r]);
            }
        }
    }
    VF32_UNROLL
    for (int i = 0; i < groups; i++)
        VF32_UNROLL
    for (int r = 0; r < rows; r++)
        VF32_UNROLL
    for (int h = 0; h < 2; h++)
        _mm512_storeu_ps(result(&to, i, r) + h * LANES, sums[(i * rows + r) * 2 + h]);
}

// The same, and the same bits, where 0 times a value may not be 0: a row meets nothing that it does not see.
static __attribute__((noinline)) void add_values_apart(const struct rows *s, const int lanes,
                                                       int32_t row, int32_t g)
{
    const int32_t b = row / 4, column = g * GROUP;
    const uint32_t *weight = weight_of(s, lanes, b, row % 4);
    const __m512 shrink = vf32_set1(s->shrink[place_of_row(lanes, b, row % 4)]);
    const __mmask32 mask = columns_from(s, column);
    const uint64_t seen = s->seen[row];
    float *acc = s->acc + (((int64_t)b * s->groups + g) * 4 + row % 4) * GROUP;
    __m512 sums[2] = {vf32_mul(shrink, _mm512_loadu_ps(acc)),
                      vf32_mul(shrink, _mm512_loadu_ps(acc + LANES))};
    for (int32_t j = 0; j < s->block->n; j += 2) {
        const __m512i even = load_value(s, j, column, seen >> j & 1 ? mask : 0);
        const __m512i odd = load_value(s, j + 1, column, seen >> (j + 1) & 1 ? mask : 0);
        const __m512i w = weights_of(weight + j / 2 * lanes, true);
        sums[0] = add_pair(sums[0], _mm512_unpacklo_epi16(even, odd), w);
        sums[1] = add_pair(sums[1], _mm512_unpackhi_epi16(even, odd), w);
    }
    _mm512_storeu_ps(acc, sums[0]);
    _mm512_storeu_ps(acc + LANES, sums[1]);
}

INLINE void add_groups(const struct rows *s, const int lanes, const int fours, const int32_t dim,
                       int32_t b, const enum asking asks)
{
    const int32_t groups = dim ? dim / GROUP : s->groups;
    int32_t g = 0;
    for (; fours == 1 && g + 2 <= groups; g += 2)
        add_values(s, lanes, fours, 2, dim, b, g, asks);
    for (; g < groups; g++)
        add_values(s, lanes, fours, 1, dim, b, g, asks);
}

// Scores of the block for one four, two and 16 rows, and its values. Functions of their own, so that nothing else
// wants their registers. `b`: block of 16 rows; of values the four.
typedef void score_fn(const struct rows *s, int32_t b, float scale, bool ahead);
typedef void add_fn(const struct rows *s, int32_t b, enum asking asks);

#define SCORE(fours, dim, name)                                                                    \
    static __attribute__((noinline)) void score_##fours##_##name(const struct rows *s, int32_t b,  \
                                                                 float scale, bool ahead)          \
    {                                                                                              \
        const uint32_t *q = s->q + (int64_t)b * s->pairs * LANES;                                  \
        for (int32_t key = 0; key < s->block->n; key += MOST_KEYS)                                 \
            if (ahead)                                                                             \
                score_keys(s, fours, dim, q, key, scale, true);                                    \
            else                                                                                   \
                score_keys(s, fours, dim, q, key, scale, false);                                   \
    }

#define SCORE_MANY(dim, name)                                                                      \
    static __attribute__((noinline)) void score_4_##name(const struct rows *s, int32_t b,          \
                                                         float scale, bool ahead)                  \
    {                                                                                              \
        if (ahead)                                                                                 \
            score_many(s, dim, b, scale, true);                                                    \
        else                                                                                       \
            score_many(s, dim, b, scale, false);                                                   \
    }

#define ADD(lanes, fours, dim, name)                                                               \
    static __attribute__((noinline)) void add_##lanes##_##fours##_##name(                          \
        const struct rows *s, int32_t b, enum asking asks)                                         \
    {                                                                                              \
        if (asks == ALL)                                                                           \
            add_groups(s, lanes, fours, dim, b, ALL);                                              \
        else if (asks == NOTHING)                                                                  \
            add_groups(s, lanes, fours, dim, b, NOTHING);                                          \
        else if (asks == FIRST_HALF && (lanes) == 16)                                              \
            add_groups(s, lanes, fours, dim, b, FIRST_HALF);                                       \
        else if ((lanes) == 16)                                                                    \
            add_groups(s, lanes, fours, dim, b, SECOND_HALF);                                      \
    }

#define DIM(dim, name)                                                                             \
    SCORE(1, dim, name)                                                                            \
    SCORE(2, dim, name)                                                                            \
    SCORE_MANY(dim, name)                                                                          \
    ADD(4, 1, dim, name)                                                                           \
    ADD(4, 2, dim, name)                                                                           \
    ADD(16, 2, dim, name)

DIM(64, 64)
DIM(128, 128)
DIM(0, any)

// The dim of heads that are a constant, 0: of others.
INLINE int32_t constant_dim(const struct weft__attention_call *call)
{
    const int32_t dim = call->k.dim;
    return dim == call->v.dim && (dim == 64 || dim == 128) ? dim : 0;
}

// Of a tile of up to eight rows: one four or two.
INLINE int fours_of(const struct rows *s)
{
    return s->rows > 4 ? 2 : 1;
}

INLINE void score_rows(const struct rows *s, const int lanes, int32_t b, float scale, bool ahead)
{
    static score_fn *const score[3][3] = {{score_1_any, score_2_any, score_4_any},
                                          {score_1_64, score_2_64, score_4_64},
                                          {score_1_128, score_2_128, score_4_128}};
    const int which = lanes == LANES ? 2 : fours_of(s) - 1;
    score[constant_dim(s->call) / 64][which](s, b, scale, ahead);
}

// The values of the block for block b of 16 rows, or all rows of fours.
INLINE void add_rows(const struct rows *s, const int lanes, int32_t b, bool ahead)
{
    static add_fn *const add[3][3] = {{add_4_1_any, add_4_2_any, add_16_2_any},
                                      {add_4_1_64, add_4_2_64, add_16_2_64},
                                      {add_4_1_128, add_4_2_128, add_16_2_128}};
    add_fn *const *of_dim = add[constant_dim(s->call) / 64];
    const bool more = lanes == LANES && s->rows - b * LANES > 8;
    of_dim[lanes == LANES ? 2 : fours_of(s) - 1](s, 4 * b,
                                                 !ahead ? NOTHING
                                                 : more ? FIRST_HALF
                                                        : ALL);
    if (more)
        of_dim[2](s, 4 * b + VALUE_FOURS, ahead ? SECOND_HALF : NOTHING);
}

#endif
