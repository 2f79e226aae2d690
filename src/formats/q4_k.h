// SPDX-License-Identifier: MIT
// Q4_K: 256 nibbles in 8 groups of 32; each group has a 6-bit scale and a 6-bit minimum.
//
//      byte  0    2       4                16                          144
//            | d  | dmin  | scales[12]     | q[128]                   |
//
//      element i, group j = i / 32:  y_i = d * sc_j * nibble - dmin * m_j
//      q[32 * (i / 64) + i % 32] holds element i in its low nibble for even j, high for odd j
//
//      scales: eight 6-bit sc and eight 6-bit m
//
//            byte 0..3    m2 | sc_0..3 (6 bits)        top two bits: bits 4-5 of sc_4..7
//            byte 4..7    m2 | m_0..3  (6 bits)        top two bits: bits 4-5 of m_4..7
//            byte 8..11   low nibble sc_4..7 & 15, high nibble m_4..7 & 15
//
// Source: ggml-common.h (block_q4_K).
#ifndef WEFT_FORMATS_Q4_K_H
#define WEFT_FORMATS_Q4_K_H

#include "src/formats/block.h"

struct weft__q4_k {
    uint16_t d;    // f16
    uint16_t dmin; // f16
    uint8_t scales[12];
    uint8_t q[128];
};

// The 6-bit scale and minimum of group j.
static inline void weft__q4_k_scale_min(const uint8_t scales[12], int j, uint8_t *sc, uint8_t *m)
{
    if (j < 4) {
        *sc = scales[j] & 63;
        *m = scales[j + 4] & 63;
    } else {
        *sc = (uint8_t)((scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4);
        *m = (uint8_t)((scales[j + 4] >> 4) | (scales[j] >> 6) << 4);
    }
}

// Group j.
static inline void weft__q4_k_decode_32(const struct weft__q4_k *block, int j, float y[32])
{
    float d = weft__f16_to_f32(block->d);
    float dmin = weft__f16_to_f32(block->dmin);
    uint8_t sc, m;
    weft__q4_k_scale_min(block->scales, j, &sc, &m);
    float scale = d * (float)sc, minimum = dmin * (float)m;
    const uint8_t *q = block->q + 32 * (j / 2);
    for (int l = 0; l < 32; l++)
        y[l] = scale * (float)(j & 1 ? q[l] >> 4 : q[l] & 15) - minimum;
}

static inline void weft__q4_k_decode(const struct weft__q4_k *block, float y[256])
{
    for (int j = 0; j < 8; j++)
        weft__q4_k_decode_32(block, j, y + 32 * j);
}

WEFT__BLOCK_FORMAT(Q4_K, q4_k)

#endif
