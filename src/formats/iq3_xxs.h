// SPDX-License-Identifier: MIT
// IQ3_XXS: 256 numbers in 8 groups of 32, each eight points of a lattice with signs and a 4-bit scale.
//
//      byte  0    2              66                            98
//            | d  | q[64]       | signs[8] (32 bit each)      |
//
//      q[n] chooses a point of 4 magnitudes for elements 4 n ... (iq_grids.h)
//      signs of group j: four times 7 bits for 8 signs, the scale in the top 4 bits
//      y = d * (0.5 + scale) / 2 * magnitude * sign
//
// Source: ggml-common.h (block_iq3_xxs).
#ifndef WEFT_FORMATS_IQ3_XXS_H
#define WEFT_FORMATS_IQ3_XXS_H

#include "src/formats/iq_grids.h"

struct weft__iq3_xxs {
    uint16_t d; // f16
    uint8_t q[64];
    uint16_t signs[16];
};

static inline void weft__iq3_xxs_decode(const struct weft__iq3_xxs *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 8; j++) {
        uint32_t signs;
        memcpy(&signs, block->signs + 2 * j, sizeof signs);
        float scale = d * (0.5f + (float)(signs >> 28)) * 0.5f;
        for (int l = 0; l < 4; l++) {
            uint8_t sign = weft__iq_signs(signs >> 7 * l & 127);
            const uint8_t *q = block->q + 8 * j + 2 * l;
            float *to = y + 32 * j + 8 * l;
            weft__iq_point4(weft__iq3_xxs_grid[q[0]], sign, scale, to);
            weft__iq_point4(weft__iq3_xxs_grid[q[1]], sign >> 4, scale, to + 4);
        }
    }
}

WEFT__BLOCK_FORMAT(IQ3_XXS, iq3_xxs)

#endif
