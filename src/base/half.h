// SPDX-License-Identifier: MIT
// Conversions between f32 and the 16-bit and 8-bit floating-point formats, in portable C. Exact in one
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

//  fp8 e4m3: s eeee mmm, bias 7, no infinity, NaN is s 1111 111; largest 448
static inline float weft__fp8_e4m3_to_f32(uint8_t byte)
{
    uint32_t sign = (uint32_t)(byte & 0x80u) << 24, magnitude = byte & 0x7fu;
    if (magnitude == 0x7f)
        return weft__f32_from_bits(sign | 0x7fc00000u);
    if (magnitude >= 8)
        return weft__f32_from_bits(sign | ((magnitude << 20) + 0x3c000000u));
    return weft__f32_from_bits(sign | weft__f32_bits((float)magnitude * 0x1p-9f));
}

// Saturates: what is too large, infinity included, becomes the largest number.
static inline uint8_t weft__fp8_e4m3_from_f32(float value)
{
    uint32_t bits = weft__f32_bits(value), magnitude = bits & 0x7fffffffu;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (magnitude >= 0x43e00000u) // 448
        return (uint8_t)(sign | 0x7eu);
    if (magnitude < 0x3c800000u) { // below 2^-6: the subnormal grid has step 2^-9
        float scaled = weft__f32_from_bits(magnitude) + 0x1p14f;
        return (uint8_t)(sign | (weft__f32_bits(scaled) - 0x46800000u));
    }
    uint32_t rounded = magnitude - 0x3c000000u + 0x7ffffu + (magnitude >> 20 & 1u);
    return (uint8_t)(sign | rounded >> 20);
}

//  fp8 e5m2: s eeeee mm, bias 15: the upper half of an f16; largest 57344
static inline float weft__fp8_e5m2_to_f32(uint8_t byte)
{
    return weft__f16_to_f32((uint16_t)(byte << 8));
}

// Saturates as e4m3 does.
static inline uint8_t weft__fp8_e5m2_from_f32(float value)
{
    uint32_t bits = weft__f32_bits(value), magnitude = bits & 0x7fffffffu;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (magnitude >= 0x47600000u) // 57344
        return (uint8_t)(sign | 0x7bu);
    if (magnitude < 0x38800000u) { // below 2^-14: the subnormal grid has step 2^-16
        float scaled = weft__f32_from_bits(magnitude) + 0x1p7f;
        return (uint8_t)(sign | (weft__f32_bits(scaled) - 0x43000000u));
    }
    uint32_t rounded = magnitude - 0x38000000u + 0xfffffu + (magnitude >> 21 & 1u);
    return (uint8_t)(sign | rounded >> 21);
}

#endif
