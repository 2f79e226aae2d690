// SPDX-License-Identifier: MIT
// Q5_1: 32 five-bit numbers, a scale and a minimum.
//
//      byte  0    2    4            8                         24
//            | d  | m  | qh (32 bit)| b0 b1 ...          b15 |
//
//      element j: low 4 bits as in q4_0, fifth bit = bit j of qh
//      y_j = q_j * d + m
//
// Source: ggml-common.h (block_q5_1).
#ifndef WEFT_FORMATS_Q5_1_H
#define WEFT_FORMATS_Q5_1_H

#include "src/formats/q5_0.h"

struct weft__q5_1 {
    uint16_t d; // f16
    uint16_t m; // f16
    uint8_t qh[4];
    uint8_t q[16];
};

static inline void weft__q5_1_decode(const struct weft__q5_1 *block, float y[32])
{
    float d = weft__f16_to_f32(block->d), m = weft__f16_to_f32(block->m);
    for (int j = 0; j < 32; j++)
        y[j] = (float)weft__q5_quant(block->qh, block->q, j) * d + m;
}

WEFT__BLOCK_FORMAT(Q5_1, q5_1)

#endif
