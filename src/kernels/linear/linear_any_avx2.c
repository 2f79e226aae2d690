// SPDX-License-Identifier: MIT
// Any format, with AVX2. vpmaddubsw wants one unsigned operand and saturates at 16 bits: codes of formats
// with minima go as they are (below 128), signed weights give their signs to x.
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/linear/linear_any.h"

static inline vf32 weft__any_widen(const uint8_t *q)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)q)));
}

// 32 products in 8 lanes.
WEFT__INLINE __m256i dot32(__m256i w, __m256i x, bool minima, bool wide)
{
    const __m256i ones = _mm256_set1_epi16(1), top = _mm256_set1_epi8((char)0x80);
    if (minima && !wide)
        return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones);
    __m256i is_signed = _mm256_xor_si256(w, top);
    __m256i words =
        _mm256_maddubs_epi16(_mm256_abs_epi8(is_signed), _mm256_sign_epi8(x, is_signed));
    __m256i dot = _mm256_madd_epi16(words, ones);
    if (wide) // codes of 8 bits: 128 more than what was multiplied
        dot = _mm256_add_epi32(dot, _mm256_madd_epi16(_mm256_maddubs_epi16(top, x), ones));
    return dot;
}

// acc + 256 products.
WEFT__INLINE vf32 weft__any_dot(vf32 acc, const struct weft__piece *w,
                                const struct weft__rounded_row *x, int64_t k, bool minima,
                                bool wide)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    float combined[WEFT__PIECE / 16];
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        __m256 scale = _mm256_castps128_ps256(_mm_loadu_ps(x->scale + k / 32 + 4 * i));
        scale = _mm256_permutevar8x32_ps(scale, twice);
        _mm256_storeu_ps(combined + 8 * i, _mm256_mul_ps(scale, _mm256_loadu_ps(w->scale + 8 * i)));
        if (minima) {
            __m256i sums = _mm256_loadu_si256((const __m256i *)(x->sum16 + k / 16 + 8 * i));
            scale = _mm256_mul_ps(scale, _mm256_set1_ps(1.0f / 32)); // sums are times -32
            acc = _mm256_fmadd_ps(_mm256_loadu_ps(w->minimum + 8 * i),
                                  _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale), acc);
        }
    }
    WEFT__UNROLL for (int g = 0; g < 8; g++)
    {
        __m256i dot = dot32(_mm256_loadu_si256((const __m256i *)(w->q + 32 * g)),
                            _mm256_loadu_si256((const __m256i *)(x->q + k + 32 * g)), minima, wide);
        __m256 scale = _mm256_set_m128(_mm_broadcast_ss(combined + 2 * g + 1),
                                       _mm_broadcast_ss(combined + 2 * g));
        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc);
    }
    return acc;
}

#include "src/kernels/linear/linear_any_rows.h"

weft__linear_fn weft__linear_any_q8_avx2;
void weft__linear_any_q8_avx2(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    const struct weft__any_format *format = weft__any_format_avx2(call->dtype);
    if (format->traits.wide)
        weft__any_q8_rows(call, format, row0, row1, true, true);
    else if (format->traits.minima)
        weft__any_q8_rows(call, format, row0, row1, true, false);
    else
        weft__any_q8_rows(call, format, row0, row1, false, false);
}

weft__linear_fn weft__linear_any_f32_avx2;
void weft__linear_any_f32_avx2(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    weft__any_f32_rows(call, weft__any_format_avx2(call->dtype), row0, row1);
}
