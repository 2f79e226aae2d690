// SPDX-License-Identifier: MIT
// What few rows on the tiles of AMX keep between their two products: queries as they meet keys, scores in order, weights
// with a row in a row, sums. Part of attention_few_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_FEW_ROWS_AMX_H
#define WEFT_KERNELS_ATTENTION_FEW_ROWS_AMX_H

#include "src/kernels/attention/attention_codes_avx512bf16.h"
#include "src/kernels/attention/attention_f16_amx.h"

// A block whose scores await the softmax while the next one is read.
struct late {
    struct rows rows;
    struct block block;
    int64_t at[BLOCK], values_at[BLOCK]; // at: of f16
    uint64_t wild;                       // as struct tiles has it
    bool wild_queries;
    const uint16_t *values[HALVES];
    int32_t column; // tile of columns that is added next; its sums are stored at the one after
    bool any;
};

// Scores of 16 / lanes keys, [key][row], to the order of a vector of scores.
INLINE __m512i order_of_scores(const int lanes)
{
    switch (lanes) {
    case 4: return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    case 8: return _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    default: return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
}

// Where [row][keys] finds the weights of two vectors of scores: of bf16 one vector after the other, of two parts beside each
// other.
static __m512i order_of_rows(const int lanes, const int parts)
{
    const int keys = 2 * LANES / lanes, together = LANES / lanes; // of both, of one
    uint16_t from[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++) {
        const int vector = i % keys / together;
        const int lane = score_lane(lanes, i / keys, i % keys % together);
        from[i] = (uint16_t)(parts == 1 ? vector * LANES + lane : 2 * lane + vector);
    }
    return _mm512_loadu_si512(from);
}

// Scores to the order of the softmax, times the scale. Of f16, whose keys have two parts of which each has sums: is one of
// them none?
INLINE bool order_scores(const struct rows *s, const int lanes, const int parts)
{
    const __m512i order = order_of_scores(lanes);
    const __m512 scale = vf32_set1(s->call->scale * LOG2E);
    __m512 all = _mm512_setzero_ps();
    for (int v = 0; v < BLOCK * lanes / LANES; v++) {
        float *at = s->scores + v * LANES;
        __m512 x = _mm512_loadu_ps(at);
        if (parts == 2) {
            x = vf32_add(x, _mm512_loadu_ps(rest_of_scores(s) + v * LANES));
            all = vf32_add(all, x);
        }
        if (lanes < LANES)
            x = _mm512_permutexvar_ps(order, x);
        _mm512_storeu_ps(at, vf32_mul(scale, x));
    }
    return parts == 2 && _mm512_cmp_ps_mask(all, all, _CMP_UNORD_Q);
}

static bool is_wild_key(const struct rows *s, int64_t at)
{
    const uint16_t *x = (const uint16_t *)(const void *)s->call->k.data + at;
    __m512i largest = _mm512_setzero_si512();
    for (int32_t i = 0; i < s->call->k.dim; i += GROUP)
        largest = largest_f16(largest, x + i);
    return is_wild_f16(largest);
}

// Scores of f16 that have to do with infinities or NaNs, again.
static __attribute__((noinline)) void score_wild_few(const struct late *late, const int lanes)
{
    const struct rows *s = &late->rows;
    const int32_t keys = LANES / lanes; // of a vector of scores
    for (int32_t r = 0; r < s->rows; r++) {
        float q[WEFT__ATTENTION_MAX_DIM];
        weft__attention_query(s->call, s->tile, r, q);
        for (int32_t key = 0; key < late->block.n; key++)
            if (late->wild_queries || is_wild_key(s, late->at[key]))
                s->scores[key / keys * LANES + score_lane(lanes, r, key % keys)] =
                    score_one(s, q, late->at[key]) * (s->call->scale * LOG2E);
    }
}

// Weights with a row in a row, as the product wants them: each vector of `from` has all rows, a row's keys together.
INLINE void turn_weights(const uint32_t *from, uint16_t *weights, const int lanes)
{
    for (int h = 0; h < HALVES && lanes == LANES; h++) {
        vf32 rows[LANES];
        vf32_load_transposed((const float *)(const void *)from + h * TILE_SUMS, LANES, rows);
        for (int r = 0; r < LANES; r++)
            vf32_store((float *)(void *)(weights + h * TILE_NUMBERS) + r * LANES, rows[r]);
    }
    if (lanes == LANES)
        return;
    VF32_UNROLL
    for (int h = 0; h < HALVES; h++, from += PAIRS / HALVES * lanes)
        VF32_UNROLL
    for (int odd = 0; odd < lanes / 4; odd++) {
        __m512i x[4], rows[4];
        VF32_UNROLL
        for (int i = 0; i < 4; i++) {
            if (lanes == 4) {
                x[i] = _mm512_loadu_si512(from + i * LANES);
                continue;
            }
            const __m512i a = _mm512_loadu_si512(from + 2 * i * LANES);
            const __m512i b = _mm512_loadu_si512(from + (2 * i + 1) * LANES);
            x[i] = odd ? _mm512_unpackhi_epi64(a, b) : _mm512_unpacklo_epi64(a, b);
        }
        turn_parts(x, rows);
        VF32_UNROLL
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(weights + (h * lanes + lanes / 4 * i + odd) * 32, rows[i]);
    }
}

// acc times what became of the largest scores. Most blocks of keys have none that is larger.
INLINE void shrink_sums(const struct rows *s, const int lanes)
{
    if (!_mm512_cmpneq_ps_mask(_mm512_loadu_ps(s->shrink), vf32_set1(1)))
        return;
    for (int32_t i = 0; i < s->groups * s->columns / 16; i++)
        for (int r = 0; r < lanes; r++) {
            float *acc = s->acc + (i * lanes + r) * LANES;
            vf32_store(acc, vf32_mul(vf32_set1(s->shrink[lane_of(lanes, r)]), vf32_load(acc)));
        }
}

// Tiles of columns.
INLINE int32_t columns_of(const struct rows *s)
{
    return s->groups * s->columns / 16;
}

// Where column i is among the sums of a row: the number of its tile, and its lane there.
INLINE int32_t tile_of_column(weft_dtype kv, int32_t i)
{
    if (kv == WEFT_F16)
        return i / LANES;
    return is_code(kv) ? i / CODE_GROUP * 4 + i % 16 / 4 : i / GROUP * 2 + i % 8 / 4;
}

INLINE int32_t lane_of_column(weft_dtype kv, int32_t i)
{
    if (kv == WEFT_F16)
        return i % LANES;
    return (is_code(kv) ? i % CODE_GROUP / 16 : i % GROUP / 8) * 4 + i % 4;
}

// The infinities and NaNs that values of the block have, for those rows that see them.
static __attribute__((noinline)) void add_wild(const struct tiles *t, const struct late *late,
                                               const int lanes)
{
    const struct rows *s = &late->rows;
    for (int32_t key = 0; key < late->block.n; key++)
        for (int32_t r = 0; r < s->rows && late->wild >> key & 1; r++) {
            const uint16_t weight = t->weights[(key / 32 * lanes + r) * 32 + key % 32];
            for (int32_t i = 0; i < s->call->v.dim && s->seen[r] >> key & 1; i++) {
                const float x = value_at(s, key, i);
                const weft_dtype kv = s->call->v.dtype;
                if (!isfinite(x))
                    s->acc[(tile_of_column(kv, i) * lanes + r) * LANES + lane_of_column(kv, i)] +=
                        weft__bf16_to_f32(weight) * x;
            }
        }
}

static void store_row(const struct rows *s, const int lanes, int32_t row)
{
    const float *acc = s->acc + row * LANES;
    for (int32_t g = 0; g < s->groups; g++, acc += s->columns * lanes) {
        float group[CODE_GROUP];
        for (int v = 0; v < s->columns / LANES; v++)
            vf32_store(group + v * LANES, vf32_load(acc + v * lanes * LANES));
        if (s->call->v.dtype == WEFT_F16)
            memcpy(s->row + g * GROUP, group, GROUP * sizeof *group);
        else
            (s->columns == GROUP ? order_group : order_codes)(group, s->row + g * s->columns);
    }
    const int32_t at = lane_of(lanes, row);
    weft__attention_finish(s->call, s->tile, row, s->largest[at], s->sum[at], s->row);
}

// Where the pair of elements is that meets that of place `i` of a row of keys, as unpacking left it.
INLINE int32_t pair_of_place(weft_dtype kv, int32_t i)
{
    const int32_t step = i / 16, pair = i % 16;
    return is_code(kv) ? step / 2 * (CODE_GROUP / 2) + pair / 4 * 8 + step % 2 * 4 + pair % 4 : i;
}

static void place_pairs(const struct rows *s, const int lanes)
{
    memset(s->q, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    for (int32_t r = 0; r < s->rows; r++) {
        uint32_t row[WEFT__ATTENTION_MAX_DIM / 2];
        pairs_of_query(s, r, row);
        for (int32_t i = 0; i < s->pairs; i++)
            s->q[i * lanes + r] = row[pair_of_place(s->call->k.dtype, i)];
    }
}

// The same in two parts: of 32 elements each of the first 16 lies beside one of the others, as those of keys do. Has one
// of them infinities or NaNs?
static bool place_parts(const struct rows *s, const int lanes)
{
    bool wild = false;
    memset(s->q, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    memset(s->q_rest, 0, (size_t)(s->pairs * lanes) * sizeof *s->q);
    for (int32_t r = 0; r < s->rows; r++) {
        float wide[WEFT__ATTENTION_MAX_DIM];
        uint32_t most[WEFT__ATTENTION_MAX_DIM / 2], rest[WEFT__ATTENTION_MAX_DIM / 2];
        weft__attention_query(s->call, s->tile, r, wide);
        wild |=
            divide_query(wide, s->call->k.dim, (uint16_t *)(void *)most, (uint16_t *)(void *)rest);
        for (int32_t i = 0; i < s->pairs; i++) {
            s->q[i * lanes + r] = most[i];
            s->q_rest[i * lanes + r] = rest[i];
        }
    }
    return wild;
}

#endif
