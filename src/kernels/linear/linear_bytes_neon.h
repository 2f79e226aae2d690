// SPDX-License-Identifier: MIT
// Quantised weights as 32 signed bytes in the order of their columns, with Advanced SIMD. The names
// are those of linear_bytes_avx2.h, so that linear_f32.h and linear_q8.h are written once.
#ifndef WEFT_KERNELS_LINEAR_BYTES_NEON_H
#define WEFT_KERNELS_LINEAR_BYTES_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "src/formats/q4_k.h"
#include "src/kernels/kernel.h"

typedef int8x16x2_t weft__bytes32;

WEFT__INLINE float weft__half(const void *p)
{
    __fp16 half;
    memcpy(&half, p, sizeof half);
    return (float)half;
}

WEFT__INLINE weft__bytes32 weft__bytes32_load(const void *p)
{
    const int8_t *bytes = p;
    return (weft__bytes32){{vld1q_s8(bytes), vld1q_s8(bytes + 16)}};
}

WEFT__INLINE weft__bytes32 weft__bytes32_of(uint8x16_t low, uint8x16_t high)
{
    return (weft__bytes32){{vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)}};
}

// 16 bytes as 32 nibbles, the low ones first.
WEFT__INLINE weft__bytes32 weft__nibbles_split(const unsigned char *p)
{
    uint8x16_t q = vld1q_u8(p);
    return weft__bytes32_of(vandq_u8(q, vdupq_n_u8(15)), vshrq_n_u8(q, 4));
}

// The low or the high nibbles of 32 bytes.
WEFT__INLINE weft__bytes32 weft__nibbles(const unsigned char *p, int high)
{
    uint8x16_t a = vld1q_u8(p), b = vld1q_u8(p + 16), nibble = vdupq_n_u8(15);
    if (high)
        return weft__bytes32_of(vshrq_n_u8(a, 4), vshrq_n_u8(b, 4));
    return weft__bytes32_of(vandq_u8(a, nibble), vandq_u8(b, nibble));
}

// Bits [shift, shift + 2) of 32 bytes, as bits 4 and 5.
WEFT__INLINE weft__bytes32 weft__top_bits(const unsigned char *p, int shift)
{
    int8x16_t by = vdupq_n_s8((int8_t)-shift);
    uint8x16_t two = vdupq_n_u8(3);
    uint8x16_t a = vandq_u8(vshlq_u8(vld1q_u8(p), by), two);
    uint8x16_t b = vandq_u8(vshlq_u8(vld1q_u8(p + 16), by), two);
    return weft__bytes32_of(vshlq_n_u8(a, 4), vshlq_n_u8(b, 4));
}

WEFT__INLINE weft__bytes32 weft__bytes32_or(weft__bytes32 a, weft__bytes32 b)
{
    return (weft__bytes32){{vorrq_s8(a.val[0], b.val[0]), vorrq_s8(a.val[1], b.val[1])}};
}

WEFT__INLINE weft__bytes32 weft__bytes32_minus(weft__bytes32 a, int8_t b)
{
    return (weft__bytes32){{vsubq_s8(a.val[0], vdupq_n_s8(b)), vsubq_s8(a.val[1], vdupq_n_s8(b))}};
}

WEFT__INLINE weft__bytes32 weft__bytes32_plus(weft__bytes32 a, weft__bytes32 b)
{
    return (weft__bytes32){{vaddq_s8(a.val[0], b.val[0]), vaddq_s8(a.val[1], b.val[1])}};
}

WEFT__INLINE weft__bytes32 weft__bytes32_and(weft__bytes32 a, uint8_t b)
{
    int8x16_t c = vdupq_n_s8((int8_t)b);
    return (weft__bytes32){{vandq_s8(a.val[0], c), vandq_s8(a.val[1], c)}};
}

WEFT__INLINE weft__bytes32 weft__bytes32_flip(weft__bytes32 a, uint8_t b)
{
    int8x16_t c = vdupq_n_s8((int8_t)b);
    return (weft__bytes32){{veorq_s8(a.val[0], c), veorq_s8(a.val[1], c)}};
}

WEFT__INLINE void weft__bytes32_store(uint8_t *p, weft__bytes32 a)
{
    vst1q_s8((int8_t *)p, a.val[0]);
    vst1q_s8((int8_t *)p + 16, a.val[1]);
}

// Byte i is 255 where bit i is set.
WEFT__INLINE weft__bytes32 weft__bytes32_of_bits(uint32_t bits)
{
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t low = vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    uint8x16_t high =
        vcombine_u8(vdup_n_u8((uint8_t)(bits >> 16)), vdup_n_u8((uint8_t)(bits >> 24)));
    return weft__bytes32_of(vtstq_u8(low, bit), vtstq_u8(high, bit));
}

// Byte i is 255 where bit j of p[i] is set.
WEFT__INLINE weft__bytes32 weft__bytes32_plane(const uint8_t *p, int j)
{
    uint8x16_t bit = vdupq_n_u8((uint8_t)(1 << j));
    return weft__bytes32_of(vtstq_u8(vld1q_u8(p), bit), vtstq_u8(vld1q_u8(p + 16), bit));
}

// p[i] >> shift & mask, mask below 2^(8 - shift).
WEFT__INLINE weft__bytes32 weft__bytes32_field(const uint8_t *p, int shift, uint8_t mask)
{
    int8x16_t by = vdupq_n_s8((int8_t)-shift);
    return weft__bytes32_and(
        weft__bytes32_of(vshlq_u8(vld1q_u8(p), by), vshlq_u8(vld1q_u8(p + 16), by)), mask);
}

// table[i] of every byte i below 16.
WEFT__INLINE weft__bytes32 weft__bytes32_lookup(const int8_t table[16], weft__bytes32 i)
{
    int8x16_t entries = vld1q_s8(table);
    return (weft__bytes32){{vqtbl1q_s8(entries, vreinterpretq_u8_s8(i.val[0])),
                            vqtbl1q_s8(entries, vreinterpretq_u8_s8(i.val[1]))}};
}

// -a where the mask is 255, a where it is 0.
WEFT__INLINE weft__bytes32 weft__bytes32_negate(weft__bytes32 a, weft__bytes32 mask)
{
    return (weft__bytes32){{vsubq_s8(veorq_s8(a.val[0], mask.val[0]), mask.val[0]),
                            vsubq_s8(veorq_s8(a.val[1], mask.val[1]), mask.val[1])}};
}

// 32 codes of a stream of `bits` bits each, lowest bits first.
WEFT__INLINE weft__bytes32 weft__bytes32_stream(const uint8_t *codes, int bits)
{
    uint8_t q[32];
    for (int i = 0; i < 32; i += 8, codes += bits) {
        uint64_t stream = 0;
        memcpy(&stream, codes, (size_t)bits);
        for (int l = 0; l < 8; l++)
            q[i + l] = (uint8_t)(stream >> bits * l & ((1u << bits) - 1));
    }
    return weft__bytes32_load(q);
}

// The second and third of four eights change places.
WEFT__INLINE weft__bytes32 weft__bytes32_middle(weft__bytes32 a)
{
    return (weft__bytes32){{vcombine_s8(vget_low_s8(a.val[0]), vget_low_s8(a.val[1])),
                            vcombine_s8(vget_high_s8(a.val[0]), vget_high_s8(a.val[1]))}};
}

#endif
