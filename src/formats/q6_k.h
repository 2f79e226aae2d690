// SPDX-License-Identifier: MIT
// Q6_K: 256 six-bit numbers around 32 in 16 groups of 16, each with a signed 8-bit scale.
//
//      byte  0              128        192       208   210
//            | ql[128]      | qh[64]   | sc[16]  | d   |
//
//      element i: n = i / 128, g = (i % 128) / 32, l = i % 32
//      low 4 bits   ql[64 n + 32 (g & 1) + l], low nibble for g < 2, high nibble else
//      high 2 bits  qh[32 n + l] >> 2 g
//      y_i = d * sc[i / 16] * (q_i - 32)
//
// Source: ggml-common.h (block_q6_K).
#ifndef WEFT_FORMATS_Q6_K_H
#define WEFT_FORMATS_Q6_K_H

#include "src/formats/block.h"

struct weft__q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t sc[16];
    uint16_t d; // f16
};

// The number 0..63 of element i.
static inline int weft__q6_k_quant(const struct weft__q6_k *block, int i)
{
    int n = i / 128, g = i % 128 / 32, l = i % 32;
    int b = block->ql[64 * n + 32 * (g & 1) + l];
    int low = g < 2 ? b & 15 : b >> 4;
    int high = block->qh[32 * n + l] >> 2 * g & 3;
    return low | high << 4;
}

// Elements 32 j .. 32 j + 31.
static inline void weft__q6_k_decode_32(const struct weft__q6_k *block, int j, float y[32])
{
    float d = weft__f16_to_f32(block->d);
    for (int i = 32 * j; i < 32 * j + 32; i++)
        y[i - 32 * j] = d * (float)block->sc[i / 16] * (float)(weft__q6_k_quant(block, i) - 32);
}

static inline void weft__q6_k_decode(const struct weft__q6_k *block, float y[256])
{
    for (int j = 0; j < 8; j++)
        weft__q6_k_decode_32(block, j, y + 32 * j);
}

WEFT__BLOCK_FORMAT(Q6_K, q6_k)

#endif
