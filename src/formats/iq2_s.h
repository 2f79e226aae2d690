// SPDX-License-Identifier: MIT
// IQ2_S: 256 numbers in 16 groups of 16, each two points of a lattice with signs and a 4-bit scale.
//
//      byte  0    2         34          66      74          82
//            | d  | q[32]   | sign[32] | qh[8] | scales[8] |
//
//      elements 8 l ...: point = q[l] | (qh[l / 4] >> 2 (l % 4) & 3) << 8, signs = bits of sign[l]
//      scale of group k: scales[k / 2] >> 4 (k & 1) & 15
//      y = d * (0.5 + scale) / 4 * magnitude * sign
//
// Source: ggml-common.h (block_iq2_s).
#ifndef WEFT_FORMATS_IQ2_S_H
#define WEFT_FORMATS_IQ2_S_H

#include "src/formats/iq_grids.h"

struct weft__iq2_s {
    uint16_t d; // f16
    uint8_t q[32];
    uint8_t sign[32];
    uint8_t qh[8];
    uint8_t scales[8];
};

static inline void weft__iq2_s_decode(const struct weft__iq2_s *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int l = 0; l < 32; l++) {
        int scale = block->scales[l / 4] >> 4 * (l / 2 & 1) & 15;
        int point = block->q[l] | (block->qh[l / 4] >> 2 * (l % 4) & 3) << 8;
        weft__iq_point8(weft__iq2_s_grid[point], block->sign[l], d * (0.5f + (float)scale) * 0.25f,
                        y + 8 * l);
    }
}

WEFT__BLOCK_FORMAT(IQ2_S, iq2_s)

#endif
