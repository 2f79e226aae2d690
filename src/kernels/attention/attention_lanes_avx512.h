// SPDX-License-Identifier: MIT
// Vectors of scores, whose lanes are rows and keys (attention_pairs.h). Part of attention_pairs_avx512bf16.c and of
// attention_int8_avx512vnni.c.
#ifndef WEFT_KERNELS_ATTENTION_LANES_AVX512_H
#define WEFT_KERNELS_ATTENTION_LANES_AVX512_H

#include "src/kernels/attention/attention_pairs.h"

static __m512i keys_of_lanes(const int lanes)
{
    int32_t key[LANES];
    for (int i = 0; i < LANES; i++)
        key[i] = key_of(lanes, i);
    return _mm512_loadu_si512(key);
}

// What is between a score and its weight beside the scale, for a block of rows whose scores are `scores`.
static void adjust_scores(const struct rows *s, const int lanes, int32_t b, float *scores)
{
    const struct weft__attention_call *call = s->call;
    const __m512i of_key = keys_of_lanes(lanes);
    const __m512i own = _mm512_loadu_si512(s->own + b * LANES);
    const __m512 slope = _mm512_loadu_ps(s->slope + b * LANES);
    for (int v = 0; v < BLOCK * lanes / LANES; v++) {
        __m512 x = _mm512_loadu_ps(scores + v * LANES);
        if (s->scaled)
            x = vf32_mul(x, _mm512_loadu_ps(s->key_scale + v * LANES));
        if (call->softcap > 0)
            x = vf32_mul(vf32_set1(call->softcap * LOG2E),
                         vf32_tanh(vf32_mul(vf32_set1(1 / call->softcap), x)));
        if (call->alibi_slopes) {
            __m512i key =
                _mm512_add_epi32(of_key, _mm512_set1_epi32(s->block->first + v * (LANES / lanes)));
            __m512 far = _mm512_cvtepi32_ps(_mm512_abs_epi32(_mm512_sub_epi32(own, key)));
            x = vf32_sub(x, vf32_mul(slope, far));
        }
        _mm512_storeu_ps(scores + v * LANES, x);
    }
}

// Scores that their rows do not see become -infinity.
static void mask_scores(const struct rows *s, const int lanes, int32_t b, float *scores)
{
    int32_t low[LANES], high[LANES];
    for (int i = 0; i < LANES; i++) {
        const int32_t row = b * lanes + row_of(lanes, i);
        const uint64_t seen = row < s->rows ? s->seen[row] : ~UINT64_C(0);
        low[i] = (int32_t)(uint32_t)seen;
        high[i] = (int32_t)(uint32_t)(seen >> 32);
    }
    const __m512i lows = _mm512_loadu_si512(low), highs = _mm512_loadu_si512(high);
    const __m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), keys_of_lanes(lanes));
    for (int v = 0; v < BLOCK * lanes / LANES; v++) {
        const int key = v * (LANES / lanes);
        const __m512i shifted = _mm512_sllv_epi32(bit, _mm512_set1_epi32(key % 32));
        const __mmask16 sees = _mm512_test_epi32_mask(key < 32 ? lows : highs, shifted);
        float *x = scores + v * LANES;
        _mm512_storeu_ps(x, _mm512_mask_blend_ps(sees, vf32_set1(-INFINITY), _mm512_loadu_ps(x)));
    }
}

// The largest, or the sum, of the lanes that are the same row.
INLINE __m512 over_keys(const int lanes, __m512 x, const bool largest)
{
    if (lanes <= 8) {
        __m512 y = _mm512_shuffle_ps(x, x, 0x4e);
        x = largest ? _mm512_max_ps(x, y) : _mm512_add_ps(x, y);
    }
    if (lanes <= 4) {
        __m512 y = _mm512_shuffle_ps(x, x, 0xb1);
        x = largest ? _mm512_max_ps(x, y) : _mm512_add_ps(x, y);
    }
    return x;
}

// Where the halves of the weights of two vectors of scores lie among them, narrowed.
static inline __m512i order_of_weights(const int lanes)
{
    uint16_t from[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++) {
        const int key = i / 2 / lanes * 2 + i % 2, together = LANES / lanes; // keys of a vector
        int lane = lane_of(lanes, i / 2 % lanes);
        while (key_of(lanes, lane) != key % together || row_of(lanes, lane) != i / 2 % lanes)
            lane++;
        from[i] = (uint16_t)(key / together * LANES + lane);
    }
    return _mm512_loadu_si512(from);
}

// The lane that a score of row `row` and key `key` of a vector has.
INLINE int score_lane(const int lanes, int row, int key)
{
    return lane_of(lanes, row) + (lanes == 8 ? 2 * key : key);
}

INLINE int code_step(const int lanes)
{
    return 2 * LANES / lanes;
}

INLINE void ask_codes(const char *pool, const int64_t *at, int64_t column)
{
    __builtin_prefetch(pool + at[2 * NEAR] + column, 0, 3);
    __builtin_prefetch(pool + at[FAR] + column, 0, 2);
}

// Scales of the keys of the block and of their values, in the order of scores.
static void spread_scales(const struct rows *s, const int lanes)
{
    float scales[BLOCK + LANES];
    const struct weft__attention_plane *const planes[] = {&s->call->k, &s->call->v};
    float *const to[] = {s->key_scale, s->value_scale};
    const __m512i of_key = keys_of_lanes(lanes);
    for (int n = 0; n < 2; n++) {
        gather_scales(s->call, s->tile, planes[n], s->block->first, s->block->n, 1, scales);
        for (int v = 0; v < BLOCK * lanes / LANES; v++)
            _mm512_storeu_ps(
                to[n] + v * LANES,
                _mm512_permutexvar_ps(of_key, _mm512_loadu_ps(scales + v * (LANES / lanes))));
    }
}

// 32 columns of a row of results from the order of unpacking to their own.
INLINE void order_group(const float *acc, float *to)
{
    const __m512 low = _mm512_loadu_ps(acc), high = _mm512_loadu_ps(acc + LANES);
    const __m512 first = _mm512_shuffle_f32x4(low, high, 0x44);
    const __m512 second = _mm512_shuffle_f32x4(low, high, 0xee);
    _mm512_storeu_ps(to, _mm512_shuffle_f32x4(first, first, 0xd8));
    _mm512_storeu_ps(to + LANES, _mm512_shuffle_f32x4(second, second, 0xd8));
}

// The same of 64 columns, unpacked twice: in part l of 128 bits, vector v has columns 16 l + 4 v .. 16 l + 4 v + 3.
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

// rows[i] = part i of each of four vectors.
INLINE void turn_parts(const __m512i x[4], __m512i rows[4])
{
    const __m512i a = _mm512_shuffle_i32x4(x[0], x[1], 0x44);
    const __m512i b = _mm512_shuffle_i32x4(x[2], x[3], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(x[0], x[1], 0xee);
    const __m512i d = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    rows[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    rows[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
    rows[2] = _mm512_shuffle_i32x4(c, d, 0x88);
    rows[3] = _mm512_shuffle_i32x4(c, d, 0xdd);
}

#endif
