// SPDX-License-Identifier: MIT
// Q4_1: 32 nibbles, a scale and a minimum.
//
//      byte  0    2    4                         20
//            | d  | m  | b0 b1 ...          b15 |      y_j      = (b_j & 15) * d + m
//                                                      y_(j+16) = (b_j >> 4) * d + m
//
// Source: ggml-common.h (block_q4_1).
#ifndef WEFT_FORMATS_Q4_1_H
#define WEFT_FORMATS_Q4_1_H

#include "src/formats/block.h"

struct weft__q4_1 {
    uint16_t d; // f16
    uint16_t m; // f16
    uint8_t q[16];
};

static inline void weft__q4_1_decode(const struct weft__q4_1 *block, float y[32])
{
    float d = weft__f16_to_f32(block->d), m = weft__f16_to_f32(block->m);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(block->q[j] & 15) * d + m;
        y[j + 16] = (float)(block->q[j] >> 4) * d + m;
    }
}

WEFT__BLOCK_FORMAT(Q4_1, q4_1)

#endif
