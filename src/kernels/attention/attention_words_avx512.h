// SPDX-License-Identifier: MIT
// Powers of two as words of bf16, 32 at a time, for weights that are rounded to it anyway.
//
// A score becomes a word w of 7 bits of exponent and 9 of fraction, 512 (127 + x) rounded, x <= 0: what is below 2^-127
// is 0, scores that are not seen, too. The mantissa of 2^x is above the fraction f of x by nothing at both ends and by at most
// 0.086 less between them, so 2^x is w less a byte of a table, in quarters of bf16's last place: the nearest seven bits
// of f choose it, the least error over the four words that share it chose its value. What a weight is off by, of it:
// 2^-7.8 at the most where bf16's own rounding has 2^-8, 0.44 x 2^-8 for 0.42 x 2^-8 in the root of the mean square,
// 10^-5 in the mean.
#ifndef WEFT_KERNELS_ATTENTION_WORDS_AVX512_H
#define WEFT_KERNELS_ATTENTION_WORDS_AVX512_H

#include "src/kernels/attention/attention_pairs.h"

enum { WORD_STEPS = 512, WORD_BIAS = 127 };

static const _Alignas(64) uint8_t above_power[128] = {
    0,  1,  3,  4,  5,  6,  8,  8,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
    24, 24, 25, 26, 27, 28, 28, 29, 30, 31, 32, 32, 33, 33, 34, 35, 36, 36, 36, 37, 38, 38,
    39, 39, 40, 40, 40, 41, 41, 42, 42, 42, 43, 43, 43, 43, 44, 44, 44, 44, 44, 44, 44, 44,
    45, 45, 45, 45, 45, 44, 44, 44, 44, 44, 44, 44, 43, 43, 43, 43, 42, 42, 42, 41, 41, 41,
    40, 39, 39, 38, 38, 37, 37, 36, 35, 35, 34, 34, 33, 32, 31, 30, 30, 29, 27, 27, 26, 25,
    23, 23, 22, 21, 19, 18, 17, 15, 14, 14, 13, 11, 10, 9,  6,  5,  3,  2,
};

// What is to be added to 512 x, half a place of bf16 with it.
INLINE __m512 word_offset(__m512 less)
{
    return vf32_fma(less, vf32_set1(-WORD_STEPS), vf32_set1(WORD_STEPS * WORD_BIAS + 2));
}

// In registers.
struct word_table {
    __m512i low, high, places; // places: of the seven bits in front of the lower byte of each word
};

INLINE struct word_table word_table_of(void)
{
    struct word_table table = {_mm512_load_si512(above_power), _mm512_load_si512(above_power + 64),
                               _mm512_set1_epi64(0x3832282218120802)};
    __asm__("" : "+v"(table.low), "+v"(table.high), "+v"(table.places)); // not read again each time
    return table;
}

// 512 x + word_offset(): the powers of scores, in the order of packing, of four in turns; 0 where they are not seen.
INLINE __m512i word_powers(const struct word_table *table, __m512 x, __m512 y, __mmask16 x_seen,
                           __mmask16 y_seen)
{
    const __m512i words = _mm512_packus_epi32(_mm512_maskz_cvtps_epi32(x_seen, x),
                                              _mm512_maskz_cvtps_epi32(y_seen, y));
    // The seven bits to the lower byte of each word.
    const __m512i index = _mm512_multishift_epi64_epi8(table->places, words);
    const __m512i above =
        _mm512_maskz_permutex2var_epi8(0x5555555555555555, table->low, index, table->high);
    return _mm512_srli_epi16(_mm512_sub_epi16(words, above), 2);
}

// Where the word of key `key` of 32 is.
INLINE int word_place(int key)
{
    return key % 16 / 4 * 8 + key / 16 * 4 + key % 4;
}

// Sixteen and sixteen powers rounded to bf16, in that order, too.
INLINE __m512i word_rounded(__m512 x, __m512 y)
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm512_permutexvar_epi64(order, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

#endif
