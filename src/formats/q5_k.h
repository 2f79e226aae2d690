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

// Elements 32 j .. 32 j + 31.
static inline void weft__q5_k_decode_32(const struct weft__q5_k *block, int j, float y[32])
{
    float d = weft__f16_to_f32(block->d), dmin = weft__f16_to_f32(block->dmin);
    uint8_t sc, m;
    weft__q4_k_scale_min(block->scales, j, &sc, &m);
    for (int l = 0; l < 32; l++)
        y[l] = d * (float)sc * (float)weft__q5_k_quant(block, 32 * j + l) - dmin * (float)m;
}

static inline void weft__q5_k_decode(const struct weft__q5_k *block, float y[256])
{
    for (int j = 0; j < 8; j++)
        weft__q5_k_decode_32(block, j, y + 32 * j);
}

WEFT__BLOCK_FORMAT(Q5_K, q5_k)

#endif
