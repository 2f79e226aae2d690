// SPDX-License-Identifier: MIT
// TQ2_0: 256 two-bit numbers around 1 and a scale.
//
//      byte  0        64    66
//            | q[64]  | d  |
//
//      element i: n = i / 128, s = i % 128 / 32:  q_i = q[32 n + i % 32] >> 2 s & 3
//      y_i = (q_i - 1) * d
//
// Source: ggml-common.h (block_tq2_0).
#ifndef WEFT_FORMATS_TQ2_0_H
#define WEFT_FORMATS_TQ2_0_H

#include "src/formats/block.h"

struct weft__tq2_0 {
    uint8_t q[64];
    uint16_t d; // f16
};

static inline int weft__tq2_0_quant(const struct weft__tq2_0 *block, int i)
{
    return block->q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
}

static inline void weft__tq2_0_decode(const struct weft__tq2_0 *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int i = 0; i < 256; i++)
        y[i] = (float)(weft__tq2_0_quant(block, i) - 1) * d;
}

WEFT__BLOCK_FORMAT(TQ2_0, tq2_0)

#endif
