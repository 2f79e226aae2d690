// SPDX-License-Identifier: MIT
// Vectors of scores, whose lanes are rows and keys (attention_pairs.h), and products of pairs. Part of
// attention_pairs_avx512bf16.c.
#ifndef WEFT_KERNELS_ATTENTION_LANES_AVX512BF16_H
#define WEFT_KERNELS_ATTENTION_LANES_AVX512BF16_H

#include "src/kernels/attention/attention_pairs.h"

static __m512i keys_of_lanes(const int lanes)
{
    int32_t key[LANES];
    for (int i = 0; i < LANES; i++)
        key[i] = key_of(lanes, i);
    return _mm512_loadu_si512(key);
}

// What is between a score and its weight beside the scale, for a block of rows.
static void adjust_scores(const struct rows *s, const int lanes, int32_t b)
{
    const struct weft__attention_call *call = s->call;
    const __m512i of_key = keys_of_lanes(lanes);
    const __m512i own = _mm512_loadu_si512(s->own + b * LANES);
    const __m512 slope = _mm512_loadu_ps(s->slope + b * LANES);
    for (int v = 0; v < BLOCK * lanes / LANES; v++) {
        __m512 x = _mm512_loadu_ps(s->scores + v * LANES);
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
        _mm512_storeu_ps(s->scores + v * LANES, x);
    }
}

// Scores that their rows do not see become -infinity.
static void mask_scores(const struct rows *s, const int lanes, int32_t b)
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
        float *x = s->scores + v * LANES;
        _mm512_storeu_ps(x, _mm512_mask_blend_ps(sees, vf32_set1(-INFINITY), _mm512_loadu_ps(x)));
    }
}

INLINE __m512 add_pair(__m512 sum, __m512i values, const uint32_t *weight)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)values, (__m512bh)_mm512_set1_epi32((int32_t)*weight));
}

#endif
