// SPDX-License-Identifier: MIT
// Codes of a byte, int8, fp8_e4m3 and fp8_e5m2, as bf16, which holds every number of theirs; numbers of f16 in two parts
// of bf16. The lower 7 bits
// of a code look up both bytes of its number in two tables, the sign is or-ed in, and unpacking puts the bytes
// together.
#ifndef WEFT_KERNELS_ATTENTION_WIDEN_AVX512_H
#define WEFT_KERNELS_ATTENTION_WIDEN_AVX512_H

#include "src/kernels/attention/attention_pairs.h"

// The lower and the upper bytes of the numbers of codes 0 to 127.
struct code_table {
    __m512i low[2], high[2];
};

INLINE struct code_table code_table_of(weft_dtype kv)
{
    uint8_t codes[2 * CODE_GROUP], low[2 * CODE_GROUP], high[2 * CODE_GROUP];
    for (int i = 0; i < 2 * CODE_GROUP; i++)
        codes[i] = (uint8_t)i;
    for (int i = 0; i < 2 * CODE_GROUP; i += LANES) {
        const __m512 x = kv == WEFT_INT8 ? vf32_load_i8((const int8_t *)codes + i)
                         : kv == WEFT_FP8_E5M2
                             ? vf32_load_e5m2(codes + i)
                             : vf32_mul(vf32_set1(256), vf32_load_e4m3(codes + i));
        const __m512i bits = _mm512_castps_si512(x);
        _mm_storeu_si128((void *)(low + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 16)));
        _mm_storeu_si128((void *)(high + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 24)));
    }
    return (struct code_table){
        {_mm512_loadu_si512(low), _mm512_loadu_si512(low + CODE_GROUP)},
        {_mm512_loadu_si512(high), _mm512_loadu_si512(high + CODE_GROUP)},
    };
}

// 64 codes to bf16: those that unpacking calls low, and high.
INLINE void widen_codes(weft_dtype kv, const struct code_table *table, __m512i codes,
                        __m512i halves[2])
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    const __m512i index = kv == WEFT_INT8 ? _mm512_abs_epi8(codes) : codes;
    const __m512i low = _mm512_permutex2var_epi8(table->low[0], index, table->low[1]);
    __m512i high = _mm512_permutex2var_epi8(table->high[0], index, table->high[1]);
    if (kv == WEFT_INT8) // -128, which has no place among 7 bits
        high = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), high, _mm512_set1_epi8(0x43));
    high = _mm512_ternarylogic_epi64(high, codes, sign, 0xf8); // high | (codes & sign)
    halves[0] = _mm512_unpacklo_epi8(low, high);
    halves[1] = _mm512_unpackhi_epi8(low, high);
}

// Sixteen even and as many odd numbers in two parts of bf16: what that has of them, and of what is left.
struct parts {
    __m512i most, rest;
};

INLINE struct parts parts_of(__m512 even, __m512 odd, const int32_t half)
{
    const __m512i upper = _mm512_set1_epi32(-65536), up = _mm512_set1_epi32(half);
    const __m512i a = _mm512_castps_si512(even), b = _mm512_castps_si512(odd);
    const __m512 c = vf32_sub(even, _mm512_castsi512_ps(_mm512_and_si512(a, upper)));
    const __m512 d = vf32_sub(odd, _mm512_castsi512_ps(_mm512_and_si512(b, upper)));
    const __m512i e = _mm512_add_epi32(_mm512_castps_si512(c), up);
    const __m512i f = _mm512_add_epi32(_mm512_castps_si512(d), up);
    return (struct parts){_mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, upper, 0xf8),
                          _mm512_ternarylogic_epi32(_mm512_srli_epi32(e, 16), f, upper, 0xf8)};
}

// 16 numbers of f16 beside 16 others, which is exact.
INLINE struct parts parts_of_f16(__m256i a, __m256i b)
{
    return parts_of(_mm512_cvtph_ps(a), _mm512_cvtph_ps(b), 0);
}

INLINE __mmask64 codes_from(int32_t dim, int32_t column)
{
    const int32_t rest = dim - column;
    return rest >= CODE_GROUP ? ~UINT64_C(0) : (UINT64_C(1) << rest) - 1;
}

// Weights of scores x, times the scales of their values. One that is infinite has no influence on rows that do
// not see its key: their scores are -infinity.
INLINE __m512 scale_weights(__m512 p, __m512 x, __m512 scales)
{
    const __mmask16 seen = _mm512_cmp_ps_mask(x, vf32_set1(-INFINITY), _CMP_NEQ_UQ);
    return _mm512_mask_mul_ps(p, seen, p, scales);
}

#endif
