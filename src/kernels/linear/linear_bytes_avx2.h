// SPDX-License-Identifier: MIT
// Quantised weights as 32 signed bytes in the order of their columns, with AVX2. The names are those of
// linear_bytes_neon.h, so that linear_f32.h and linear_q8.h are written once.
#ifndef WEFT_KERNELS_LINEAR_BYTES_AVX2_H
#define WEFT_KERNELS_LINEAR_BYTES_AVX2_H

#include <immintrin.h>

#include "src/formats/q4_k.h"
#include "src/kernels/kernel.h"

typedef __m256i weft__bytes32;

WEFT__INLINE float weft__half(const void *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

WEFT__INLINE weft__bytes32 weft__bytes32_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

// 16 bytes as 32 nibbles, the low ones first.
WEFT__INLINE weft__bytes32 weft__nibbles_split(const unsigned char *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)p);
    return _mm256_and_si256(
        _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1),
        _mm256_set1_epi8(15));
}

// The low or the high nibbles of 32 bytes.
WEFT__INLINE weft__bytes32 weft__nibbles(const unsigned char *p, int high)
{
    __m256i q = weft__bytes32_load(p);
    return _mm256_and_si256(_mm256_srl_epi16(q, _mm_cvtsi32_si128(high ? 4 : 0)),
                            _mm256_set1_epi8(15));
}

// Bits [shift, shift + 2) of 32 bytes, as bits 4 and 5.
WEFT__INLINE weft__bytes32 weft__top_bits(const unsigned char *p, int shift)
{
    __m256i q = weft__bytes32_load(p);
    q = _mm256_srl_epi16(q, _mm_cvtsi32_si128(shift));
    return _mm256_slli_epi16(_mm256_and_si256(q, _mm256_set1_epi8(3)), 4);
}

WEFT__INLINE weft__bytes32 weft__bytes32_or(weft__bytes32 a, weft__bytes32 b)
{
    return _mm256_or_si256(a, b);
}

WEFT__INLINE weft__bytes32 weft__bytes32_minus(weft__bytes32 a, int8_t b)
{
    return _mm256_sub_epi8(a, _mm256_set1_epi8(b));
}

WEFT__INLINE weft__bytes32 weft__bytes32_plus(weft__bytes32 a, weft__bytes32 b)
{
    return _mm256_add_epi8(a, b);
}

WEFT__INLINE weft__bytes32 weft__bytes32_and(weft__bytes32 a, uint8_t b)
{
    return _mm256_and_si256(a, _mm256_set1_epi8((char)b));
}

WEFT__INLINE weft__bytes32 weft__bytes32_flip(weft__bytes32 a, uint8_t b)
{
    return _mm256_xor_si256(a, _mm256_set1_epi8((char)b));
}

WEFT__INLINE void weft__bytes32_store(uint8_t *p, weft__bytes32 a)
{
    _mm256_storeu_si256((__m256i *)p, a);
}

// Byte i is 255 where bit i is set.
WEFT__INLINE weft__bytes32 weft__bytes32_of_bits(uint32_t bits)
{
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
}

// Byte i is 255 where bit j of p[i] is set.
WEFT__INLINE weft__bytes32 weft__bytes32_plane(const uint8_t *p, int j)
{
    __m256i bit = _mm256_set1_epi8((char)(1 << j));
    return _mm256_cmpeq_epi8(_mm256_and_si256(weft__bytes32_load(p), bit), bit);
}

// p[i] >> shift & mask, mask below 2^(8 - shift).
WEFT__INLINE weft__bytes32 weft__bytes32_field(const uint8_t *p, int shift, uint8_t mask)
{
    __m256i q = _mm256_srl_epi16(weft__bytes32_load(p), _mm_cvtsi32_si128(shift));
    return weft__bytes32_and(q, mask);
}

// table[i] of every byte i below 16.
WEFT__INLINE weft__bytes32 weft__bytes32_lookup(const int8_t table[16], weft__bytes32 i)
{
    __m128i entries = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), i);
}

// -a where the mask is 255, a where it is 0.
WEFT__INLINE weft__bytes32 weft__bytes32_negate(weft__bytes32 a, weft__bytes32 mask)
{
    return _mm256_sub_epi8(_mm256_xor_si256(a, mask), mask);
}

// 16 codes of `bits` bits, at most 6, in words: eight of them are `bits` bytes, the second eight begin `step`
// bytes farther. Each word gets the two bytes that its code lies in, is multiplied until the code ends it, and
// shifted down.
WEFT__INLINE __m256i weft__codes16(const uint8_t *codes, int step, int bits)
{
#define WEFT__AT(i)   (char)((i)*bits >> 3), (char)(((i)*bits >> 3) + 1)
#define WEFT__LEFT(i) (short)(1 << (16 - bits - ((i)*bits & 7)))
    const __m128i at = _mm_setr_epi8(WEFT__AT(0), WEFT__AT(1), WEFT__AT(2), WEFT__AT(3),
                                     WEFT__AT(4), WEFT__AT(5), WEFT__AT(6), WEFT__AT(7));
    const __m128i left = _mm_setr_epi16(WEFT__LEFT(0), WEFT__LEFT(1), WEFT__LEFT(2), WEFT__LEFT(3),
                                        WEFT__LEFT(4), WEFT__LEFT(5), WEFT__LEFT(6), WEFT__LEFT(7));
#undef WEFT__AT
#undef WEFT__LEFT
    long long eight[2] = {0, 0};
    memcpy(&eight[0], codes, (size_t)bits);
    memcpy(&eight[1], codes + step, (size_t)bits);
    __m256i v = _mm256_set_epi64x(0, eight[1], 0, eight[0]);
    v = _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(at));
    v = _mm256_mullo_epi16(v, _mm256_broadcastsi128_si256(left));
    return _mm256_srli_epi16(v, 16 - bits);
}

// 32 codes of a stream of `bits` bits each, lowest bits first.
WEFT__INLINE weft__bytes32 weft__bytes32_stream(const uint8_t *codes, int bits)
{
    if (bits == 8)
        return weft__bytes32_load(codes);
    if (bits == 4) {
        __m128i q = _mm_loadu_si128((const __m128i *)codes), nibble = _mm_set1_epi8(15);
        __m128i low = _mm_and_si128(q, nibble);
        __m128i high = _mm_and_si128(_mm_srli_epi16(q, 4), nibble);
        return _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
    }
    __m256i v = _mm256_packus_epi16(weft__codes16(codes, bits, bits),
                                    weft__codes16(codes + 2 * bits, bits, bits));
    return _mm256_permute4x64_epi64(v, 0xd8);
}

// The second and third of four eights change places.
WEFT__INLINE weft__bytes32 weft__bytes32_middle(weft__bytes32 a)
{
    return _mm256_permute4x64_epi64(a, 0xd8);
}

#endif
