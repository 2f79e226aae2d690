// SPDX-License-Identifier: MIT
// IQ2_XXS: 256 numbers in 8 groups of 32, each four points of a lattice with signs and a 4-bit scale.
//
//      byte  0    2                                                66
//            | d  | group 0 (8 bytes) | ... | group 7 (8 bytes)   |
//
//      group:  | p0 p1 p2 p3 | signs of 4 x 7 bits, scale in the top 4 bits (32 bit) |
//
//      p_l chooses a point of 8 magnitudes (iq_grids.h); 7 bits give 8 signs (weft__iq_signs)
//      y = d * (0.5 + scale) / 4 * magnitude * sign
//
// Source: ggml-common.h (block_iq2_xxs).
#ifndef WEFT_FORMATS_IQ2_XXS_H
#define WEFT_FORMATS_IQ2_XXS_H

#include "src/formats/iq_grids.h"

struct weft__iq2_xxs {
    uint16_t d; // f16
    uint16_t q[32];
};

static inline void weft__iq2_xxs_decode(const struct weft__iq2_xxs *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 8; j++) {
        uint8_t point[4];
        uint32_t signs;
        memcpy(point, block->q + 4 * j, sizeof point);
        memcpy(&signs, block->q + 4 * j + 2, sizeof signs);
        float scale = d * (0.5f + (float)(signs >> 28)) * 0.25f;
        for (int l = 0; l < 4; l++)
            weft__iq_point8(weft__iq2_xxs_grid[point[l]], weft__iq_signs(signs >> 7 * l & 127),
                            scale, y + 32 * j + 8 * l);
    }
}

WEFT__BLOCK_FORMAT(IQ2_XXS, iq2_xxs)

#endif
