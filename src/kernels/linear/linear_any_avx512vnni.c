// SPDX-License-Identifier: MIT
// Any format by rounded rows of X, with VNNI.
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_vnni_avx512.h"

#include "src/kernels/linear/linear_any.h"

static inline vf32 weft__any_widen(const uint8_t *q)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q)));
}

// acc + 256 products; a lane is four columns of each 64.
WEFT__INLINE vf32 weft__any_dot(vf32 acc, const struct weft__piece *w,
                                const struct weft__rounded_row *x, int64_t k, bool minima,
                                bool wide)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    (void)wide;
    __m512 scale = _mm512_castps256_ps512(_mm256_loadu_ps(x->scale + k / 32));
    scale = _mm512_permutexvar_ps(twice, scale);
    __m512 combined = _mm512_mul_ps(_mm512_loadu_ps(w->scale), scale);
    if (minima) {
        __m512 sums = _mm512_cvtepi32_ps(_mm512_loadu_si512(x->sum16 + k / 16)); // times -32
        sums = _mm512_mul_ps(_mm512_mul_ps(sums, scale), _mm512_set1_ps(1.0f / 32));
        acc = _mm512_fmadd_ps(_mm512_loadu_ps(w->minimum), sums, acc);
    }
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        __m512i offset = _mm512_setzero_si512(); // -128 times the sums of four
        if (!minima)
            offset = _mm512_slli_epi32(_mm512_loadu_si512(x->quads + k / 4 + 16 * i), 2);
        __m512i dot = _mm512_dpbusd_epi32(offset, _mm512_loadu_si512(w->q + 64 * i),
                                          _mm512_loadu_si512(x->q + k + 64 * i));
        __m512i lane = _mm512_add_epi32(quarter, _mm512_set1_epi32(4 * i));
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_permutexvar_ps(lane, combined), acc);
    }
    return acc;
}

#include "src/kernels/linear/linear_any_rows.h"

weft__linear_fn weft__linear_any_q8_avx512vnni;
void weft__linear_any_q8_avx512vnni(const struct weft__linear_call *call, int64_t row0,
                                    int64_t row1)
{
    const struct weft__any_format *format = weft__any_format_avx2(call->dtype);
    if (format->traits.minima)
        weft__any_q8_rows(call, format, row0, row1, true, false);
    else
        weft__any_q8_rows(call, format, row0, row1, false, false);
}
