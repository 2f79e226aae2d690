// SPDX-License-Identifier: MIT
// Blocks of quantised weights as unsigned bytes for vpdpbusd, in the order that the layouts vnni_* of
// linear_table.c give the activations.
#ifndef WEFT_KERNELS_LINEAR_VNNI_AVX512_H
#define WEFT_KERNELS_LINEAR_VNNI_AVX512_H

#include "src/formats/iq4_nl.h"
#include "src/formats/mxfp4.h"
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_kernel.h"

// Four sixteens of bytes that need not be aligned, in one register.
static inline __m512i weft__vnni_load4(const void *a, const void *b, const void *c, const void *d)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128(a));
    v = _mm512_inserti32x4(v, _mm_loadu_si128(b), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128(c), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128(d), 3);
}

// 128 columns of four blocks of 32: w[0] holds the first halves of the blocks, w[1] the second; the
// scales are there once for each of a block's four lanes.
struct weft__vnni_blocks4 {
    __m512i w[2];
    __m512 scale;
    __m512 minimum; // added, in the first of a block's four lanes; only formats that have it
};

typedef void weft__vnni_unpack_fn(const unsigned char *blocks, struct weft__vnni_blocks4 *out);

// The high nibble of every byte: one affine map over GF(2) instead of a shift and a mask.
WEFT__INLINE __m512i weft__vnni_high_nibbles(__m512i bytes)
{
    return _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(0x1020408000000000), 0);
}

// w = nibble, 8 more than the weight. The four blocks are 72 bytes: the nibbles of three lie in the first
// 64, those of the fourth in the last 16.
WEFT__INLINE void weft__vnni_unpack_q4_0(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    const __m512i byte = _mm512_set_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 53, 52, 51,
                                         50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 35, 34,
                                         33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 17,
                                         16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2);
    // The scales are words 0, 9, 18 and 27.
    const __m512i word = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 27, 27,
                                          27, 27, 18, 18, 18, 18, 9, 9, 9, 9, 0, 0, 0, 0);
    __m512i first = _mm512_loadu_si512(p);
    WEFT__IN_REGISTER(first);
    __m512i q = _mm512_mask_loadu_epi32(_mm512_permutexvar_epi8(byte, first), 0xf000, p + 8);
    out->w[0] = _mm512_and_si512(q, _mm512_set1_epi8(15));
    out->w[1] = weft__vnni_high_nibbles(q);
    __m512i d = _mm512_permutexvar_epi16(word, first);
    out->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(d));
}

// Sixteen bytes at `a` and at `b` of the first register, then at `c` and at `d` of the second.
WEFT__INLINE __m512i weft__vnni_sixteens(__m512i first, int a, int b, __m512i second, int c, int d)
{
    const int at[4] = {a, b, c + 64, d + 64};
    const __m512i count =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const int each = 0x01010101;
    const __m512i start = _mm512_setr_epi32(each * at[0], each * at[0], each * at[0], each * at[0],
                                            each * at[1], each * at[1], each * at[1], each * at[1],
                                            each * at[2], each * at[2], each * at[2], each * at[2],
                                            each * at[3], each * at[3], each * at[3], each * at[3]);
    return _mm512_permutex2var_epi8(first, _mm512_add_epi8(start, count), second);
}

// w = 128 more than the weight. Of 136 bytes, two registers hold all scales and the first halves of the
// blocks, two others the second halves.
WEFT__INLINE void weft__vnni_unpack_q8_0(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 68);
    __m512i c = _mm512_loadu_si512(p + 18), d = _mm512_loadu_si512(p + 72);
    WEFT__IN_REGISTER(a);
    WEFT__IN_REGISTER(b);
    out->w[0] = _mm512_xor_si512(weft__vnni_sixteens(a, 2, 36, b, 2, 36), sign);
    out->w[1] = _mm512_xor_si512(weft__vnni_sixteens(c, 0, 34, d, 14, 48), sign);
    const __m512i word = _mm512_castsi256_si512(
        _mm256_setr_epi16(0, 0, 0, 0, 17, 17, 17, 17, 32, 32, 32, 32, 49, 49, 49, 49));
    out->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutex2var_epi16(a, word, b)));
}

// Word `word` of each of four blocks of 2 * words bytes, in the four lanes of each, as f32. `second` is
// what lies `skip` words behind `first`.
WEFT__INLINE __m512 weft__vnni_halves(__m512i first, __m512i second, int words, int skip, int word)
{
    short at[4];
    for (int b = 0; b < 4; b++) {
        int w = words * b + word;
        at[b] = (short)(w < 32 ? w : w - skip + 32);
    }
    const __m512i index = _mm512_castsi256_si512(
        _mm256_setr_epi16(at[0], at[0], at[0], at[0], at[1], at[1], at[1], at[1], at[2], at[2],
                          at[2], at[2], at[3], at[3], at[3], at[3]));
    __m512i halves = _mm512_permutex2var_epi16(first, index, second);
    return _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
}

// The minima of blocks of four, as blocks4 has them.
WEFT__INLINE __m512 weft__vnni_first_lanes(__m512 v)
{
    return _mm512_maskz_mov_ps(0x1111, v);
}

WEFT__INLINE void weft__vnni_unpack_q4_1(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    __m512i first = _mm512_loadu_si512(p), second = _mm512_loadu_si512(p + 16);
    __m512i q = weft__vnni_load4(p + 4, p + 24, p + 44, p + 64);
    out->w[0] = _mm512_and_si512(q, _mm512_set1_epi8(15));
    out->w[1] = weft__vnni_high_nibbles(q);
    out->scale = weft__vnni_halves(first, second, 10, 8, 0);
    out->minimum = weft__vnni_first_lanes(weft__vnni_halves(first, second, 10, 8, 1));
}

// Nibbles with fifth bits: word `word` of a block holds those of its first half, the next those of its
// second.
WEFT__INLINE void weft__vnni_fifth_bits(__m512i q, __m512i first, __m512i second, int words,
                                        int skip, int word, __m512i w[2])
{
    short at[8];
    for (int i = 0; i < 8; i++) {
        int n = words * (i % 4) + word + i / 4;
        at[i] = (short)(n < 32 ? n : n - skip + 32);
    }
    const __m512i index = _mm512_castsi128_si512(
        _mm_setr_epi16(at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]));
    __m128i bits = _mm512_castsi512_si128(_mm512_permutex2var_epi16(first, index, second));
    const __m512i fifth = _mm512_set1_epi8(16);
    w[0] = _mm512_and_si512(q, _mm512_set1_epi8(15));
    w[1] = weft__vnni_high_nibbles(q);
    w[0] = _mm512_mask_add_epi8(w[0], (__mmask64)_mm_cvtsi128_si64(bits), w[0], fifth);
    w[1] = _mm512_mask_add_epi8(w[1], (__mmask64)_mm_extract_epi64(bits, 1), w[1], fifth);
}

// w = 16 more than the weight.
WEFT__INLINE void weft__vnni_unpack_q5_0(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    __m512i first = _mm512_loadu_si512(p), second = _mm512_loadu_si512(p + 24);
    __m512i q = weft__vnni_load4(p + 6, p + 28, p + 50, p + 72);
    weft__vnni_fifth_bits(q, first, second, 11, 12, 1, out->w);
    out->scale = weft__vnni_halves(first, second, 11, 12, 0);
}

WEFT__INLINE void weft__vnni_unpack_q5_1(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    __m512i first = _mm512_loadu_si512(p), second = _mm512_loadu_si512(p + 32);
    __m512i q = weft__vnni_load4(p + 8, p + 32, p + 56, p + 80);
    weft__vnni_fifth_bits(q, first, second, 12, 16, 2, out->w);
    out->scale = weft__vnni_halves(first, second, 12, 16, 0);
    out->minimum = weft__vnni_first_lanes(weft__vnni_halves(first, second, 12, 16, 1));
}

// Entries of a table, raised by `offset` to be unsigned, for the nibbles of w.
WEFT__INLINE void weft__vnni_look_up(__m512i w[2], const int8_t table[16], int offset)
{
    __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    entries = _mm_add_epi8(entries, _mm_set1_epi8((char)offset));
    __m512i all = _mm512_broadcast_i32x4(entries);
    w[0] = _mm512_shuffle_epi8(all, w[0]);
    w[1] = _mm512_shuffle_epi8(all, w[1]);
}

// w = 128 more than the weight; the blocks are those of q4_0.
WEFT__INLINE void weft__vnni_unpack_iq4_nl(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    weft__vnni_unpack_q4_0(p, out);
    weft__vnni_look_up(out->w, weft__iq4_levels, 128);
}

// w = 16 more than the weight.
WEFT__INLINE void weft__vnni_unpack_mxfp4(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    // The exponents are bytes 0, 17, 34 and 51.
    const __m512i at =
        _mm512_setr_epi32(0, 0, 0, 0, 17, 17, 17, 17, 34, 34, 34, 34, 51, 51, 51, 51);
    __m512i e = _mm512_maskz_permutexvar_epi8(0x1111111111111111, at, _mm512_loadu_si512(p));
    __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    bits = _mm512_mask_sllv_epi32(bits, tiny, _mm512_set1_epi32(0x00200000), e);
    __m512i q = weft__vnni_load4(p + 1, p + 18, p + 35, p + 52);
    out->w[0] = _mm512_and_si512(q, _mm512_set1_epi8(15));
    out->w[1] = weft__vnni_high_nibbles(q);
    weft__vnni_look_up(out->w, weft__e2m1_twice, 16);
    out->scale = _mm512_castsi512_ps(bits);
}

// 128 columns of q4_k: w[0] holds groups 0 and 2, w[1] groups 1 and 3 of the half block.
WEFT__INLINE void weft__vnni_unpack_q4_k(const unsigned char *q, __m512i w[2])
{
    __m512i nibble = _mm512_set1_epi8(15), bytes = _mm512_loadu_si512(q);
    w[0] = _mm512_and_si512(bytes, nibble);
    w[1] = weft__vnni_high_nibbles(bytes);
}

// d * sc of the 8 groups of a q4_k block, then dmin * m.
WEFT__INLINE __m512 weft__vnni_scales_q4_k(const unsigned char *block)
{
    __m128i head = _mm_loadu_si128((const __m128i *)block);
    // Bytes of the block: 4..7 sc and the tops of sc 4..7, 8..11 m likewise, 12..15 the low nibbles.
    __m128i low = _mm_shuffle_epi32(head, _MM_SHUFFLE(3, 2, 3, 1));
    low = _mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4));
    low = _mm_and_si128(low, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    __m128i high = _mm_shuffle_epi32(head, _MM_SHUFFLE(2, 2, 1, 1));
    high = _mm_and_si128(_mm_srli_epi32(high, 2), _mm_setr_epi32(0, 0x30303030, 0, 0x30303030));
    __m512 six_bits = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_or_si128(low, high)));
    const __m512i which = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512 d = _mm512_permutexvar_ps(which, _mm512_castps128_ps512(_mm_cvtph_ps(head)));
    return _mm512_mul_ps(six_bits, d);
}

// Half n of a q6_k block: w[0] holds columns 0..63 of the 128, w[1] the others; 32 more than the
// weight.
WEFT__INLINE void weft__vnni_unpack_q6_k(const unsigned char *block, int n, __m512i w[2])
{
    __m512i nibble = _mm512_set1_epi8(15), two_bits = _mm512_set1_epi8(0x30);
    __m512i low = _mm512_loadu_si512(block + 64 * n);
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(block + 128 + 32 * n)));
    // Group g wants bits 2g and 2g+1 of `high` at bits 4 and 5.
    __m512i high01 =
        _mm512_sllv_epi16(high, _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1));
    __m512i high23 = _mm512_srlv_epi16(
        high, _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1));
    enum { A_OR_B_AND_C = 0xf8 };
    w[0] = _mm512_ternarylogic_epi32(_mm512_and_si512(high01, two_bits), low, nibble, A_OR_B_AND_C);
    w[1] = _mm512_ternarylogic_epi32(_mm512_and_si512(high23, two_bits), _mm512_srli_epi16(low, 4),
                                     nibble, A_OR_B_AND_C);
}

// d * sc of the 16 groups of a q6_k block.
WEFT__INLINE __m512 weft__vnni_scales_q6_k(const unsigned char *block)
{
    uint16_t d;
    memcpy(&d, block + 208, sizeof d);
    __m512i sc = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(block + 192)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(sc), _mm512_cvtph_ps(_mm256_set1_epi16((short)d)));
}

// The fifth bits of half n of a q5_k block, on what weft__vnni_unpack_q4_k() gives.
WEFT__INLINE void weft__vnni_fifth_q5_k(const unsigned char *qh, int n, __m512i w[2])
{
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)qh));
    const __m512i fifth = _mm512_set1_epi8(16);
    for (int i = 0; i < 2; i++) {
        __m512i bit = _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << (4 * n + i))),
                                         _mm256_set1_epi8((char)(1 << (4 * n + i + 2))), 1);
        w[i] = _mm512_mask_add_epi8(w[i], _mm512_test_epi8_mask(high, bit), w[i], fifth);
    }
}

// Half n of a q4_k or q5_k block, first and second halves of four groups: a sixteen of bytes holds halves of
// two groups, so it goes to two quarters, whose affine maps take the low and the high nibbles.
WEFT__INLINE void weft__vnni_halves_q45_k(const unsigned char *block, int n, bool five,
                                          __m512i w[2])
{
    const long long low = 0x0102040800000000, high = 0x1020408000000000;
    const __m512i nibbles = _mm512_setr_epi64(low, low, high, high, low, low, high, high);
    const __m512i fifth = _mm512_set1_epi8(16);
    __m512i q = _mm512_loadu_si512(block + (five ? 48 : 16) + 64 * n);
    w[0] = _mm512_gf2p8affine_epi64_epi8(_mm512_shuffle_i64x2(q, q, 0xa0), nibbles, 0);
    w[1] = _mm512_gf2p8affine_epi64_epi8(_mm512_shuffle_i64x2(q, q, 0xf5), nibbles, 0);
    for (int i = 0; five && i < 2; i++) {
        __m512i bits = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(block + 16 + 16 * i)));
        const __m512i first = _mm512_set1_epi8((char)(n ? 16 : 1));
        const __m512i bit = _mm512_sllv_epi64(first, _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3));
        w[i] = _mm512_mask_add_epi8(w[i], _mm512_test_epi8_mask(bits, bit), w[i], fifth);
    }
}

// 128 columns of iq4_xs, first and second halves of four groups; 128 more than the weight.
WEFT__INLINE void weft__vnni_unpack_iq4_xs(const unsigned char *q, __m512i w[2])
{
    weft__vnni_unpack_q4_k(q, w);
    weft__vnni_look_up(w, weft__iq4_levels, 128);
}

// The scales of the 8 groups of an iq4_xs block.
WEFT__INLINE __m256 weft__vnni_scales_iq4_xs(const unsigned char *block)
{
    int32_t low, d;
    uint16_t high, half;
    memcpy(&half, block, sizeof half);
    memcpy(&high, block + 2, sizeof high);
    memcpy(&low, block + 4, sizeof low);
    d = half;
    __m256i sc =
        _mm256_srlv_epi32(_mm256_set1_epi32(low), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256i top =
        _mm256_srlv_epi32(_mm256_set1_epi32(high), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    sc = _mm256_and_si256(sc, _mm256_set1_epi32(15));
    top = _mm256_slli_epi32(_mm256_and_si256(top, _mm256_set1_epi32(3)), 4);
    sc = _mm256_sub_epi32(_mm256_or_si256(sc, top), _mm256_set1_epi32(32));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(sc), _mm256_cvtph_ps(_mm_set1_epi16((short)d)));
}

// Columns 64 i .. 64 i + 63 of two-bit codes that lie as those of q2_k and q3_k.
WEFT__INLINE __m512i weft__vnni_two_bits(const unsigned char *q, int i)
{
    __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(q + 32 * (i / 2))));
    const __m512i by = _mm512_inserti64x4(_mm512_set1_epi16((short)(4 * (i % 2))),
                                          _mm256_set1_epi16((short)(4 * (i % 2) + 2)), 1);
    return _mm512_and_si512(_mm512_srlv_epi16(bytes, by), _mm512_set1_epi8(3));
}

// The same of q3_k with its third bits: 4 more than the weight.
WEFT__INLINE __m512i weft__vnni_unpack_q3_k(const unsigned char *block, int i)
{
    __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)block));
    const __m512i bit = _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << (2 * i))),
                                           _mm256_set1_epi8((char)(1 << (2 * i + 1))), 1);
    __m512i w = weft__vnni_two_bits(block + 32, i);
    return _mm512_mask_add_epi8(w, _mm512_test_epi8_mask(high, bit), w, _mm512_set1_epi8(4));
}

// The scales of the 16 groups of a q3_k block less d, signed bytes.
WEFT__INLINE __m128i weft__vnni_scale_bytes_q3_k(const unsigned char *block)
{
    int32_t top;
    memcpy(&top, block + 104, sizeof top);
    __m128i low = _mm_loadl_epi64((const __m128i *)(block + 96));
    low = _mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4));
    low = _mm_and_si128(low, _mm_set1_epi8(15));
    __m128i high = _mm_srlv_epi32(_mm_set1_epi32(top), _mm_setr_epi32(0, 2, 4, 6));
    high = _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4);
    return _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32));
}

WEFT__INLINE __m512 weft__vnni_scales_q3_k(const unsigned char *block)
{
    uint16_t d;
    __m128i sc = weft__vnni_scale_bytes_q3_k(block);
    memcpy(&d, block + 108, sizeof d);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sc)),
                         _mm512_cvtph_ps(_mm256_set1_epi16((short)d)));
}

// The scales of the 16 groups of a q2_k block, and what is taken from each.
WEFT__INLINE __m512 weft__vnni_scales_q2_k(const unsigned char *block, __m512 *minimum)
{
    uint16_t d, dmin;
    memcpy(&d, block + 80, sizeof d);
    memcpy(&dmin, block + 82, sizeof dmin);
    __m128i both = _mm_loadu_si128((const __m128i *)block), nibble = _mm_set1_epi8(15);
    __m512i sc = _mm512_cvtepu8_epi32(_mm_and_si128(both, nibble));
    __m512i m = _mm512_cvtepu8_epi32(_mm_and_si128(_mm_srli_epi16(both, 4), nibble));
    *minimum =
        _mm512_mul_ps(_mm512_cvtepi32_ps(m), _mm512_cvtph_ps(_mm256_set1_epi16((short)dmin)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(sc), _mm512_cvtph_ps(_mm256_set1_epi16((short)d)));
}

#endif
