// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_quantize.h"

static inline int32_t round_sixteen(__m512 x, __m512 inverse, int8_t *q)
{
    __m512 scaled = _mm512_mul_ps(x, inverse);
    __mmask16 number = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);
    __m512i rounded = _mm512_maskz_cvtps_epi32(number, scaled);
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(rounded));
    return _mm512_reduce_add_epi32(rounded);
}

static float round_group(const float *x, int8_t *q[2], int32_t sum[2])
{
    __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    // The bits of magnitudes sort like the numbers, NaN above all.
    uint32_t bits = _mm512_reduce_max_epu32(
        _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    __m512 inverse = _mm512_set1_ps(weft__q8_inverse(largest));
    sum[0] = round_sixteen(low, inverse, q[0]);
    sum[1] = round_sixteen(high, inverse, q[1]);
    return largest / 127.0f;
}

weft__linear_quantize_fn weft__linear_quantize_avx512;
void weft__linear_quantize_avx512(const struct weft__linear_call *call, int32_t row0, int32_t row1)
{
    weft__q8_quantize_rows(call, row0, row1, round_group);
}
