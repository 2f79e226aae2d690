// SPDX-License-Identifier: MIT
// Conversions between f32 and the 16-bit floating-point formats, in portable C. Exact in one
// direction, round to nearest even in the other; NaN stays NaN.
#ifndef WEFT_BASE_HALF_H
#define WEFT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t weft__f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float weft__f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

//  f16: s eeeee mmmmmmmmmm, bias 15
static inline float weft__f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t mantissa = half & 0x3ffu;
    if (exponent == 0x1f)
        return weft__f32_from_bits(sign | 0x7f800000u | (mantissa ? 0x400000u : 0) |
                                   mantissa << 13);
    if (exponent != 0)
        return weft__f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    // Zero and subnormals: mantissa * 2^-24 is exact in f32.
    float magnitude = (float)mantissa * 0x1p-24f;
    return weft__f32_from_bits(sign | weft__f32_bits(magnitude));
}

static inline uint16_t weft__f16_from_f32(float value)
{
    uint32_t bits = weft__f32_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    if (magnitude >= 0x477ff000u) // rounds to 65536 or more
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: the subnormal grid has step 2^-24
        float scaled = weft__f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (weft__f32_bits(scaled) - 0x3f000000u));
    }
    uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}

//  bf16: the upper half of an f32
static inline float weft__bf16_to_f32(uint16_t half)
{
    return weft__f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t weft__bf16_from_f32(float value)
{
    uint32_t bits = weft__f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
