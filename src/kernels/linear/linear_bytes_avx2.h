// SPDX-License-Identifier: MIT
// Quantised weights as 32 signed bytes in the order of their columns, with AVX2. The names are those of
// linear_bytes_neon.h, so that linear_f32.h and linear_q8.h are written once.
#ifndef WEFT_KERNELS_LINEAR_BYTES_AVX2_H
#define WEFT_KERNELS_LINEAR_BYTES_AVX2_H

#include <immintrin.h>

#include "src/formats/q4_k.h"
#include "src/kernels/kernel.h"

typedef __m256i weft__bytes32;

WEFT__INLINE float weft__half(const unsigned char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

WEFT__INLINE weft__bytes32 weft__bytes32_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

// 16 bytes as 32 nibbles, the low ones first.
WEFT__INLINE weft__bytes32 weft__nibbles_split(const unsigned char *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)p);
    return _mm256_and_si256(
        _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1),
        _mm256_set1_epi8(15));
}

// The low or the high nibbles of 32 bytes.
WEFT__INLINE weft__bytes32 weft__nibbles(const unsigned char *p, int high)
{
    __m256i q = weft__bytes32_load(p);
    return _mm256_and_si256(_mm256_srl_epi16(q, _mm_cvtsi32_si128(high ? 4 : 0)),
                            _mm256_set1_epi8(15));
}

// Bits [shift, shift + 2) of 32 bytes, as bits 4 and 5.
WEFT__INLINE weft__bytes32 weft__top_bits(const unsigned char *p, int shift)
{
    __m256i q = weft__bytes32_load(p);
    q = _mm256_srl_epi16(q, _mm_cvtsi32_si128(shift));
    return _mm256_slli_epi16(_mm256_and_si256(q, _mm256_set1_epi8(3)), 4);
}

WEFT__INLINE weft__bytes32 weft__bytes32_or(weft__bytes32 a, weft__bytes32 b)
{
    return _mm256_or_si256(a, b);
}

WEFT__INLINE weft__bytes32 weft__bytes32_minus(weft__bytes32 a, int8_t b)
{
    return _mm256_sub_epi8(a, _mm256_set1_epi8(b));
}

#endif
