// SPDX-License-Identifier: MIT
// Q5_0: 32 five-bit numbers around 16 and a scale.
//
//      byte  0    2            6                         22
//            | d  | qh (32 bit)| b0 b1 ...          b15 |
//
//      element j: low 4 bits as in q4_0, fifth bit = bit j of qh
//      y_j = (q_j - 16) * d
//
// Source: ggml-common.h (block_q5_0).
#ifndef WEFT_FORMATS_Q5_0_H
#define WEFT_FORMATS_Q5_0_H

#include "src/formats/block.h"

struct weft__q5_0 {
    uint16_t d; // f16
    uint8_t qh[4];
    uint8_t q[16];
};

// The number 0..31 of element j; q5_1 has the same two fields.
static inline int weft__q5_quant(const uint8_t qh[4], const uint8_t q[16], int j)
{
    int low = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    return low | (qh[j / 8] >> j % 8 & 1) << 4;
}

static inline void weft__q5_0_decode(const struct weft__q5_0 *block, float y[32])
{
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 32; j++)
        y[j] = (float)(weft__q5_quant(block->qh, block->q, j) - 16) * d;
}

WEFT__BLOCK_FORMAT(Q5_0, q5_0)

#endif
