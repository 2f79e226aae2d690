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

WEFT__INLINE float weft__half(const unsigned char *p)
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

#endif
