// SPDX-License-Identifier: MIT
// Values of bf16 by weights, two keys and 32 columns at a time: what a row has comes to acc * shrink + weight * value. Part
// of attention_pairs_avx512bf16.c.
//
// Eight rows grow together, or four by 64 columns, so that a value is loaded once for them. Their results lie four rows
// by four (attention_pairs.h); weights as scores do, lanes rows of 16 or of fours.
#ifndef WEFT_KERNELS_ATTENTION_BF16_VALUES_AVX512BF16_H
#define WEFT_KERNELS_ATTENTION_BF16_VALUES_AVX512BF16_H

#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_pairs_ask.h"

enum {
    VALUE_FOURS = 2, // of whose rows results grow together
    VALUE_KEYS = 8,  // of a step of their loop
};

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

#endif
