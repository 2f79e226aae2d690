// SPDX-License-Identifier: MIT
// Q3_K: 256 three-bit numbers around 4 in 16 groups of 16, each with a 6-bit scale around 32.
//
//      byte  0           32            96           108   110
//            | hmask[32] | q[64]      | scales[12] | d   |
//
//      element i: low 2 bits   q[32 (i / 128) + i % 32] >> 2 (i % 128 / 32) & 3
//                 high bit     bit i / 32 of hmask[i % 32]
//      scale of group k = i / 16
//                 low 4 bits   k < 8 ? scales[k] & 15 : scales[k - 8] >> 4
//                 high 2 bits  scales[8 + k % 4] >> 2 (k / 4) & 3
//      y_i = d * (scale_k - 32) * (q_i - 4)
//
// Source: ggml-common.h (block_q3_K).
#ifndef WEFT_FORMATS_Q3_K_H
#define WEFT_FORMATS_Q3_K_H

#include "src/formats/block.h"

struct weft__q3_k {
    uint8_t hmask[32];
    uint8_t q[64];
    uint8_t scales[12];
    uint16_t d; // f16
};

// The scale -32..31 of group k.
static inline int weft__q3_k_scale(const uint8_t scales[12], int k)
{
    int low = k < 8 ? scales[k] & 15 : scales[k - 8] >> 4;
    return (low | (scales[8 + k % 4] >> 2 * (k / 4) & 3) << 4) - 32;
}

// The number -4..3 of element i.
static inline int weft__q3_k_quant(const struct weft__q3_k *block, int i)
{
    int low = block->q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
    return low + (block->hmask[i % 32] >> i / 32 & 1) * 4 - 4;
}

static inline void weft__q3_k_decode(const struct weft__q3_k *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)weft__q3_k_scale(block->scales, i / 16);
        y[i] = scale * (float)weft__q3_k_quant(block, i);
    }
}

WEFT__BLOCK_FORMAT(Q3_K, q3_k)

#endif
