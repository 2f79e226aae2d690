// SPDX-License-Identifier: MIT
// Numbers of f16 for the tiles of AMX: in two parts of bf16, and those that have none. Part of attention_f16_amx.c and of
// attention_few_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_F16_AMX_H
#define WEFT_KERNELS_ATTENTION_F16_AMX_H

#include "src/kernels/attention/attention_tiles_amx.h"

// The larger of earlier numbers and 32 of f16, signs apart: above the largest finite one if some are infinite or none.
INLINE __m512i largest_f16(__m512i largest, const uint16_t *x)
{
    return _mm512_max_epu16(largest,
                            _mm512_and_si512(_mm512_set1_epi16(0x7fff), _mm512_loadu_si512(x)));
}

INLINE bool is_wild_f16(__m512i largest)
{
    return _mm512_cmpgt_epu16_mask(largest, _mm512_set1_epi16(0x7bff)) != 0;
}

INLINE __m256i load_sixteen(const uint16_t *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

// Are some of sixteen infinite or none?
INLINE bool has_wild(const uint16_t *x)
{
    const __m256i size = _mm256_and_si256(_mm256_set1_epi16(0x7fff), load_sixteen(x));
    return _mm256_cmpgt_epu16_mask(size, _mm256_set1_epi16(0x7bff)) != 0;
}

// Sixteen elements, zeros for those that add_wild() adds.
INLINE __m256i tame_sixteen(const uint16_t *x)
{
    const __m256i exponent = _mm256_set1_epi16(0x7c00), v = load_sixteen(x);
    return _mm256_maskz_mov_epi16(_mm256_cmpneq_epi16_mask(_mm256_and_si256(v, exponent), exponent),
                                  v);
}

// A score that has to do with infinities or NaNs: 0 times one of them is what it is, but a part that is 0 is not what the
// number is.
static inline float score_one(const struct rows *s, const float *q, int64_t at)
{
    const struct weft__attention_plane *k = &s->call->k;
    const uint16_t *x = (const uint16_t *)(const void *)k->data + at;
    double sum = 0;
    for (int32_t i = 0; i < k->dim; i++)
        sum += (double)weft__f16_to_f32(weft__f16_from_f32(q[i])) * weft__f16_to_f32(x[i]);
    return (float)sum;
}

#endif
