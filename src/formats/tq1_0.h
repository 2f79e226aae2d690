// SPDX-License-Identifier: MIT
// TQ1_0: 256 ternary digits, five to a byte (the last sixteen four to a byte), and a scale.
//
//      byte  0        48      52    54
//            | q[48]  | qh[4] | d  |
//
//      A byte holds a fraction f / 256 whose digits to the base 3 are the elements: multiplied by 3^n
//      modulo 256, times 3, its carry is digit n.
//
//      q[0..31]   digit n of byte l = element 32 n + l          (160 elements)
//      q[32..47]  digit n of byte l = element 160 + 16 n + l     (80 elements)
//      qh         digit n of byte l = element 240 + 4 n + l      (16 elements)
//      y_i = (digit_i - 1) * d
//
// Source: ggml-common.h (block_tq1_0).
#ifndef WEFT_FORMATS_TQ1_0_H
#define WEFT_FORMATS_TQ1_0_H

#include "src/formats/block.h"

struct weft__tq1_0 {
    uint8_t q[48];
    uint8_t qh[4];
    uint16_t d; // f16
};

// Digit n (0..2) of a byte.
static inline int weft__tq1_0_digit(uint8_t byte, int n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return (uint8_t)(byte * power[n]) * 3 >> 8;
}

static inline int weft__tq1_0_quant(const struct weft__tq1_0 *block, int i)
{
    if (i < 160)
        return weft__tq1_0_digit(block->q[i % 32], i / 32);
    if (i < 240)
        return weft__tq1_0_digit(block->q[32 + i % 16], (i - 160) / 16);
    return weft__tq1_0_digit(block->qh[i % 4], (i - 240) / 4);
}

static inline void weft__tq1_0_decode(const struct weft__tq1_0 *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int i = 0; i < 256; i++)
        y[i] = (float)(weft__tq1_0_quant(block, i) - 1) * d;
}

WEFT__BLOCK_FORMAT(TQ1_0, tq1_0)

#endif
