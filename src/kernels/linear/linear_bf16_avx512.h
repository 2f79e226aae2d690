// SPDX-License-Identifier: MIT
// Numbers to bf16, 32 at a time: what kernels of 16-bit weights by bf16 activations share, on vectors and on tiles.
#ifndef WEFT_KERNELS_LINEAR_BF16_AVX512_H
#define WEFT_KERNELS_LINEAR_BF16_AVX512_H

#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_store.h"

WEFT__INLINE __m512i narrow32(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// The first `left` numbers at x, at most 32; zeros after them.
WEFT__INLINE __m512i narrow_row(const float *x, int64_t left)
{
    int first = left < 16 ? (int)left : 16, second = left < 32 ? (int)left - first : 16;
    return narrow32(vf32_load_n(x, first),
                    second > 0 ? vf32_load_n(x + 16, second) : _mm512_setzero_ps());
}

// The same of element `at` of rows in f32 or bf16.
WEFT__INLINE __m512i bf16_row(const void *x, weft_dtype dtype, int64_t at, int64_t left)
{
    if (dtype == WEFT_BF16)
        return _mm512_maskz_loadu_epi16(left < 32 ? (1u << left) - 1 : UINT32_MAX,
                                        (const uint16_t *)x + at);
    return narrow_row((const float *)x + at, left);
}

// Columns [k, k + 32) of a row of W, of which the mask has those that are there.
typedef __m512i load_fn(const unsigned char *row, int64_t k, __mmask32 mask);

WEFT__INLINE __m512i load_bf16(const unsigned char *row, int64_t k, __mmask32 mask)
{
    return _mm512_maskz_loadu_epi16(mask, row + 2 * k);
}

WEFT__INLINE __m512i load_f32(const unsigned char *row, int64_t k, __mmask32 mask)
{
    return narrow32(_mm512_maskz_loadu_ps((__mmask16)mask, row + 4 * k),
                    _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), row + 4 * (k + 16)));
}

WEFT__INLINE __m512i load_f16(const unsigned char *row, int64_t k, __mmask32 mask)
{
    __m512i v = _mm512_maskz_loadu_epi16(mask, row + 2 * k);
    return narrow32(_mm512_cvtph_ps(_mm512_castsi512_si256(v)),
                    _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1)));
}

// weft__linear_store_lanes(), past the caches where that may be: results_written() follows the last.
WEFT__INLINE void store_results(const struct weft__linear_call *call, int32_t m, int64_t row, int n,
                                vf32 dot)
{
    if (!call->y_past || n < 16) {
        weft__linear_store_lanes(call, m, row, n, dot);
        return;
    }
    vf32 value = vf32_mul(vf32_set1(call->alpha), dot);
    if (call->x_scale)
        value = vf32_mul(value, vf32_set1(call->x_scale[m]));
    if (call->bias)
        value = vf32_add(value, vf32_load(call->bias + row));
    _mm512_stream_ps(call->y + m * call->y_stride + row, value);
}

WEFT__INLINE void results_written(const struct weft__linear_call *call)
{
    if (call->y_past)
        _mm_sfence();
}

#endif
