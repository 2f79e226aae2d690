// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_quantize.h"

WEFT__INLINE __m128i round_sixteen(__m512 x, __m512 inverse)
{
    __m512 scaled = _mm512_mul_ps(x, inverse);
    __mmask16 number = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);
    return _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(number, scaled));
}

// Largest lane, as unsigned numbers.
WEFT__INLINE uint32_t largest_lane(__m512i v)
{
    __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i z = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    z = _mm_max_epu32(z, _mm_shuffle_epi32(z, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(z, _mm_shuffle_epi32(z, 0xb1)));
}

WEFT__INLINE float round_group(const float *x, int8_t *q[2], int32_t sum[2])
{
    __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    // The bits of magnitudes sort like the numbers, NaN above all.
    uint32_t bits =
        largest_lane(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                      _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    __m512 inverse = _mm512_set1_ps(weft__q8_inverse(largest));
    __m128i bytes[2] = {round_sixteen(low, inverse), round_sixteen(high, inverse)};
    _mm_storeu_si128((__m128i *)q[0], bytes[0]);
    _mm_storeu_si128((__m128i *)q[1], bytes[1]);
    // Sums of absolute differences add up unsigned bytes: 128 more than each.
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes[0]), bytes[1], 1);
    both = _mm256_xor_si256(both, _mm256_set1_epi8((char)0x80));
    both = _mm256_sad_epu8(both, _mm256_setzero_si256());
    both = _mm256_add_epi64(both, _mm256_shuffle_epi32(both, 0x4e));
    sum[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(both)) - 16 * 128;
    sum[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(both, 1)) - 16 * 128;
    return largest / 127.0f;
}

weft__linear_quantize_fn weft__linear_quantize_avx512;
void weft__linear_quantize_avx512(const struct weft__linear_call *call, int32_t row0, int32_t row1)
{
    weft__q8_quantize_rows(call, row0, row1, round_group);
}
