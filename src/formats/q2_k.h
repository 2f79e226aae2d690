// SPDX-License-Identifier: MIT
// Q2_K: 256 two-bit numbers in 16 groups of 16; each group has a 4-bit scale and a 4-bit minimum.
//
//      byte  0            16            80    82     84
//            | scales[16] | q[64]      | d   | dmin |
//
//      scales[k]: low nibble scale, high nibble minimum of group k = i / 16
//      element i: n = i / 128, s = i % 128 / 32:  q_i = q[32 n + i % 32] >> 2 s & 3
//      y_i = d * scale_k * q_i - dmin * minimum_k
//
// Source: ggml-common.h (block_q2_K).
#ifndef WEFT_FORMATS_Q2_K_H
#define WEFT_FORMATS_Q2_K_H

#include "src/formats/block.h"

struct weft__q2_k {
    uint8_t scales[16];
    uint8_t q[64];
    uint16_t d;    // f16
    uint16_t dmin; // f16
};

static inline int weft__q2_k_quant(const struct weft__q2_k *block, int i)
{
    return block->q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
}

static inline void weft__q2_k_decode(const struct weft__q2_k *block, float y[256])
{
    float d = weft__f16_to_f32(block->d), dmin = weft__f16_to_f32(block->dmin);
    for (int i = 0; i < 256; i++) {
        uint8_t both = block->scales[i / 16];
        float scale = d * (float)(both & 15), minimum = dmin * (float)(both >> 4);
        y[i] = scale * (float)weft__q2_k_quant(block, i) - minimum;
    }
}

WEFT__BLOCK_FORMAT(Q2_K, q2_k)

#endif
