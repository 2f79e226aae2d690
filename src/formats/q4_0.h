// SPDX-License-Identifier: MIT
// Q4_0: 32 nibbles around 8 and a scale.
//
//      byte  0    2                         18
//            | d  | b0 b1 ...          b15 |      y_j      = ((b_j & 15) - 8) * d
//                                                 y_(j+16) = ((b_j >> 4) - 8) * d
//
// Source: ggml-common.h (block_q4_0).
#ifndef WEFT_FORMATS_Q4_0_H
#define WEFT_FORMATS_Q4_0_H

#include "src/formats/block.h"

struct weft__q4_0 {
    uint16_t d; // f16
    uint8_t q[16];
};

static inline void weft__q4_0_decode(const struct weft__q4_0 *block, float y[32])
{
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((block->q[j] & 15) - 8) * d;
        y[j + 16] = (float)((block->q[j] >> 4) - 8) * d;
    }
}

WEFT__BLOCK_FORMAT(Q4_0, q4_0)

#endif
