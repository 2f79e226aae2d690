// SPDX-License-Identifier: MIT
// Q8_0: 32 signed bytes and a scale.
//
//      byte  0    2                              34
//            | d  | q0 q1 q2 ...            q31 |      y_i = q_i * d
//
// Source: ggml-common.h (block_q8_0).
#ifndef WEFT_FORMATS_Q8_0_H
#define WEFT_FORMATS_Q8_0_H

#include "src/formats/block.h"

struct weft__q8_0 {
    uint16_t d; // f16
    int8_t q[32];
};

static inline void weft__q8_0_decode(const struct weft__q8_0 *block, float y[32])
{
    float d = weft__f16_to_f32(block->d);
    for (int i = 0; i < 32; i++)
        y[i] = (float)block->q[i] * d;
}

WEFT__BLOCK_FORMAT(Q8_0, q8_0)

#endif
