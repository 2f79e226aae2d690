// SPDX-License-Identifier: MIT
// Blocks of quantised weights as unsigned bytes for vpdpbusd, in the order that the layouts vnni_* of
// linear_table.c give the activations.
#ifndef WEFT_KERNELS_LINEAR_VNNI_AVX512_H
#define WEFT_KERNELS_LINEAR_VNNI_AVX512_H

#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_kernel.h"

// For more rows of X than a tile holds, unless a row must not depend on the batch.
weft__linear_fn weft__linear_gemm_Q8_0_avx512vnni;
weft__linear_fn weft__linear_gemm_Q4_0_avx512vnni;
weft__linear_fn weft__linear_gemm_Q4_K_avx512vnni;
weft__linear_fn weft__linear_gemm_Q6_K_avx512vnni;
weft__linear_fn weft__linear_gemm_any_avx512vnni;

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
    __m512i q = _mm512_mask_loadu_epi32(_mm512_permutexvar_epi8(byte, first), 0xf000, p + 8);
    out->w[0] = _mm512_and_si512(q, _mm512_set1_epi8(15));
    out->w[1] = weft__vnni_high_nibbles(q);
    __m512i d = _mm512_permutexvar_epi16(word, first);
    out->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(d));
}

// w = 128 more than the weight.
WEFT__INLINE void weft__vnni_unpack_q8_0(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    __m512i sign = _mm512_set1_epi8((char)0x80);
    out->w[0] = _mm512_xor_si512(weft__vnni_load4(p + 2, p + 36, p + 70, p + 104), sign);
    out->w[1] = _mm512_xor_si512(weft__vnni_load4(p + 18, p + 52, p + 86, p + 120), sign);
    // The scales are words 0 and 17 of either half.
    const __m512i word = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 17,
                                          17, 17, 0, 0, 0, 0, 17, 17, 17, 17, 0, 0, 0, 0);
    __m512i d = _mm512_permutexvar_epi16(word, _mm512_loadu_si512(p));
    d = _mm512_mask_permutexvar_epi16(d, 0xff00, word, _mm512_loadu_si512(p + 68));
    out->scale = _mm512_cvtph_ps(_mm512_castsi512_si256(d));
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

#endif
