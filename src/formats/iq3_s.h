// SPDX-License-Identifier: MIT
// IQ3_S: 256 numbers in 8 groups of 32, each eight points of a lattice with signs and a 4-bit scale.
//
//      byte  0    2          66      74         106         110
//            | d  | q[64]   | qh[8] | sign[32] | scales[4] |
//
//      elements 4 n ...: point = q[n] | (qh[n / 8] >> n % 8 & 1) << 8, magnitudes in iq_grids.h
//      element i: sign = bit i % 8 of sign[i / 8]
//      scale of group j: scales[j / 2] >> 4 (j & 1) & 15
//      y = d * (1 + 2 scale) * magnitude * sign
//
// Source: ggml-common.h (block_iq3_s).
#ifndef WEFT_FORMATS_IQ3_S_H
#define WEFT_FORMATS_IQ3_S_H

#include "src/formats/iq_grids.h"

struct weft__iq3_s {
    uint16_t d; // f16
    uint8_t q[64];
    uint8_t qh[8];
    uint8_t sign[32];
    uint8_t scales[4];
};

static inline void weft__iq3_s_decode(const struct weft__iq3_s *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int n = 0; n < 64; n++) {
        int scale = block->scales[n / 16] >> 4 * (n / 8 & 1) & 15;
        int point = block->q[n] | (block->qh[n / 8] >> n % 8 & 1) << 8;
        weft__iq_point4(weft__iq3_s_grid[point], (uint8_t)(block->sign[n / 2] >> 4 * (n & 1)),
                        d * (float)(1 + 2 * scale), y + 4 * n);
    }
}

WEFT__BLOCK_FORMAT(IQ3_S, iq3_s)

#endif
