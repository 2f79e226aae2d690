// SPDX-License-Identifier: MIT
// Weights of 12 bits (linear_packed_bf16.h) as words again. Only what AVX-512 BW has.
#ifndef WEFT_KERNELS_LINEAR_PACKED_BF16_AVX512_H
#define WEFT_KERNELS_LINEAR_PACKED_BF16_AVX512_H

#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed_bf16.h"

WEFT__INLINE __m512i codes_swap(void)
{
    return _mm512_set4_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001);
}

// A group in the order of its unit, of codes that are at bits 0 to 3 and bytes that are in place: 16 exponents are looked up
// by five bits, so nothing is masked away.
WEFT__INLINE __m512i codes_words(__m512i codes, __m512i bytes, __m512i exponents)
{
    const __m512i kept = _mm512_set1_epi16((short)0x807f);
    return _mm512_ternarylogic_epi32(bytes, kept, _mm512_permutexvar_epi16(codes, exponents), 0xea);
}

// Weights that have no code, put among those of row `row` from column k on, `words` in order of columns.
static __attribute__((noinline)) __m512i codes_with_others(const struct weft__linear_call *call,
                                                           int64_t row, int64_t k, __m512i words)
{
    const struct weft__codes_other *from = weft__codes_others(call, row),
                                   *end = weft__codes_others(call, row + 1);
    _Alignas(64) uint16_t w[32];
    for (int64_t count = end - from; count > 0;) { // the first at k or behind
        const int64_t half = count / 2;
        if (from[half].col < k) {
            from += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    if (from == end || from->col >= k + 32)
        return words;
    _mm512_store_si512(w, words);
    for (; from < end && from->col < k + 32; from++)
        w[from->col - k] = from->weight;
    return _mm512_load_si512(w);
}

// The unit of a row that begins at column k, as w[group] in order of columns.
WEFT__INLINE void take_unit(const struct weft__linear_call *call, int64_t row, int64_t k,
                            __m512i w[4])
{
    const __m512i order =
        _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                         22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i exponents = _mm512_load_si512(weft__codes_head_of(call));
    const unsigned char *unit =
        call->weight + row * call->weight_stride_bytes + k / WEFT__CODES_COLS * WEFT__CODES_BYTES;
    const __m512i codes = _mm512_load_si512(unit);
    __m512i least = _mm512_set1_epi16(-1);
    WEFT__UNROLL for (int g = 0; g < 4; g++)
    {
        __m512i bytes = _mm512_load_si512(unit + 64 + g / 2 * 64);
        if (g % 2)
            bytes = _mm512_shuffle_epi8(bytes, codes_swap());
        const __m512i words =
            codes_words(g ? _mm512_srli_epi16(codes, 4u * (unsigned)g) : codes, bytes, exponents);
        least = _mm512_min_epu16(least, words);
        w[g] = _mm512_permutexvar_epi16(order, words);
    }
    // Weights that stand in the list are 0 here.
    if (_mm512_test_epi16_mask(least, least) != UINT32_MAX)
        WEFT__UNROLL for (int g = 0; g < 4; g++)
        {
            w[g] = codes_with_others(call, row, k + 32 * g, w[g]);
        }
}

#endif
