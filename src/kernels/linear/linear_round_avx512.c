// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_round.h"

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

// Rounds 32 columns; returns the scale.
WEFT__INLINE float round_group(const float *x, __m128i q[2])
{
    __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    // The bits of magnitudes sort like the numbers, NaN above all.
    uint32_t bits =
        largest_lane(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                      _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    __m512 inverse = _mm512_set1_ps(weft__round_inverse(largest));
    q[0] = round_sixteen(low, inverse);
    q[1] = round_sixteen(high, inverse);
    return largest / 127.0f;
}

// -32 times the sums of four bytes.
WEFT__INLINE __m512i sum_quads(__m512i q)
{
    __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), q);
    return _mm512_madd_epi16(pairs, _mm512_set1_epi16(-32));
}

// Each lane the sum of its four.
WEFT__INLINE __m512i sum_fours(__m512i v)
{
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, 0x4e));
    return _mm512_add_epi32(v, _mm512_shuffle_epi32(v, 0xb1));
}

// The sums of the 128 columns from k on.
WEFT__INLINE void store_sums(const struct weft__rounded_row *to, int64_t k, const __m512i quads[2])
{
    const __m512i each = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i both = _mm512_permutex2var_epi32(sum_fours(quads[0]), each, sum_fours(quads[1]));
    __m256i sixteens = _mm512_castsi512_si256(both);
    _mm256_storeu_si256((__m256i *)(to->sum16 + k / 16), sixteens);
    __m256i pairs = _mm256_add_epi32(sixteens, _mm256_shuffle_epi32(sixteens, 0xb1));
    __m128i sums = _mm256_cvtepi64_epi32(pairs);
    _mm_storeu_si128((__m128i *)(to->sum32 + k / 32), _mm_srai_epi32(sums, 2));
    __m128 real = _mm_cvtepi32_ps(_mm_srai_epi32(_mm_sub_epi32(_mm_setzero_si128(), sums), 5));
    _mm_storeu_ps(to->scaled + k / 32, _mm_mul_ps(real, _mm_loadu_ps(to->scale + k / 32)));
}

// The planes for a few rows of X.
WEFT__INLINE void store_few(const struct weft__rounded_row *to, int64_t k, const __m512i q[2],
                            const __m512i quads[2])
{
    enum { EVEN = 0x88, ODD = 0xdd };
    _mm512_storeu_si512(to->halves + k, _mm512_shuffle_i64x2(q[0], q[1], EVEN));
    _mm512_storeu_si512(to->halves + k + 64, _mm512_shuffle_i64x2(q[0], q[1], ODD));
    _mm512_storeu_si512(to->quads + k / 4, quads[0]);
    _mm512_storeu_si512(to->quads + k / 4 + 16, quads[1]);
    __m512i octets = _mm512_add_epi32(_mm512_shuffle_i64x2(quads[0], quads[1], EVEN),
                                      _mm512_shuffle_i64x2(quads[0], quads[1], ODD));
    _mm512_storeu_si512(to->octets + k / 8, _mm512_srai_epi32(octets, 3));
}

WEFT__INLINE __m512i join_sixteens(const __m128i q[4])
{
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(q[0]), q[1], 1);
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(q[2]), q[3], 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// 128 columns, of which x has n.
WEFT__INLINE void round_128(const struct weft__rounded_row *to, int64_t k, const float *x,
                            int64_t n, bool few)
{
    __m128i sixteens[8];
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        float scale = 0;
        if (32 * i < n)
            scale = round_group(x + 32 * i, sixteens + 2 * i);
        else
            sixteens[2 * i] = sixteens[2 * i + 1] = _mm_setzero_si128();
        to->scale[k / 32 + i] = scale;
    }
    __m512i q[2] = {join_sixteens(sixteens), join_sixteens(sixteens + 4)};
    __m512i quads[2] = {sum_quads(q[0]), sum_quads(q[1])};
    _mm512_storeu_si512(to->q + k, q[0]);
    _mm512_storeu_si512(to->q + k + 64, q[1]);
    store_sums(to, k, quads);
    if (few)
        store_few(to, k, q, quads);
}

weft__round_fn weft__round_avx512;
void weft__round_avx512(const struct weft__rounded_row *to, int64_t k, int64_t end, const float *x,
                        int64_t n, bool few)
{
    for (int64_t i = 0; k < end; k += 128, i += 128)
        round_128(to, k, x + i, n - i, few);
}
