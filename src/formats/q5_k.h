// SPDX-License-Identifier: MIT
// Q5_K: 256 five-bit numbers in 8 groups of 32; each group has a 6-bit scale and a 6-bit minimum.
//
//      byte  0    2       4            16         48               176
//            | d  | dmin  | scales[12] | qh[32]  | q[128]         |
//
//      scales and the low 4 bits of an element lie as in q4_k
//      element i, group j = i / 32: fifth bit = bit j of qh[i % 32]
//      y_i = d * sc_j * q_i - dmin * m_j
//
// Source: ggml-common.h (block_q5_K).
#ifndef WEFT_FORMATS_Q5_K_H
#define WEFT_FORMATS_Q5_K_H

#include "src/formats/q4_k.h"

struct weft__q5_k {
    uint16_t d;    // f16
    uint16_t dmin; // f16
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t q[128];
};

// The number 0..31 of element i.
static inline int weft__q5_k_quant(const struct weft__q5_k *block, int i)
{
    int b = block->q[32 * (i / 64) + i % 32];
    return (i & 32 ? b >> 4 : b & 15) | (block->qh[i % 32] >> i / 32 & 1) << 4;
}

static inline void weft__q5_k_decode(const struct weft__q5_k *block, float y[256])
{
    float d = weft__f16_to_f32(block->d), dmin = weft__f16_to_f32(block->dmin);
    for (int i = 0; i < 256; i++) {
        uint8_t sc, m;
        weft__q4_k_scale_min(block->scales, i / 32, &sc, &m);
        y[i] = d * (float)sc * (float)weft__q5_k_quant(block, i) - dmin * (float)m;
    }
}

WEFT__BLOCK_FORMAT(Q5_K, q5_k)

#endif
