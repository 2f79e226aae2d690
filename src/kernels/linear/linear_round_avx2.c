// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/linear/linear_round.h"

static inline int32_t sum_i32(__m256i v)
{
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

static inline float largest_u32(__m256i bits)
{
    __m128i half = _mm_max_epu32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(half));
}

static inline __m256i round_eight(const float *x, __m256 inverse)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
    __m256 number = _mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q);
    return _mm256_and_si256(_mm256_cvtps_epi32(scaled), _mm256_castps_si256(number));
}

WEFT__INLINE float round_group(const float *x, int8_t *q, int32_t sum[2])
{
    // The bits of magnitudes sort like the numbers, NaN above all.
    __m256i largest_bits = _mm256_setzero_si256();
    for (int i = 0; i < 32; i += 8) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
        bits = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
        largest_bits = _mm256_max_epu32(largest_bits, bits);
    }
    float largest = largest_u32(largest_bits);
    __m256 inverse = _mm256_set1_ps(weft__round_inverse(largest));
    for (int i = 0; i < 2; i++) {
        __m256i low = round_eight(x + 16 * i, inverse);
        __m256i high = round_eight(x + 16 * i + 8, inverse);
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
        _mm_storeu_si128(
            (__m128i *)(q + 16 * i),
            _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
        sum[i] = sum_i32(_mm256_add_epi32(low, high));
    }
    return largest / 127.0f;
}

weft__round_fn weft__round_avx2;
void weft__round_avx2(const struct weft__rounded_row *to, int64_t k, int64_t end, const float *x,
                      int64_t n, bool few)
{
    weft__round_columns(to, k, end, x, n, few, round_group);
}
