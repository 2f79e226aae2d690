// SPDX-License-Identifier: MIT
// IQ2_XS: 256 numbers in 16 groups of 16, each two points of a lattice with signs and a 4-bit scale.
//
//      byte  0    2                         66          74
//            | d  | q[32] (16 bit each)    | scales[8] |
//
//      q_l, for elements 8 l ...: 9 bits choose a point of 8 magnitudes, 7 bits give 8 signs (iq_grids.h)
//      scale of group k: scales[k / 2] >> 4 (k & 1) & 15
//      y = d * (0.5 + scale) / 4 * magnitude * sign
//
// Source: ggml-common.h (block_iq2_xs).
#ifndef WEFT_FORMATS_IQ2_XS_H
#define WEFT_FORMATS_IQ2_XS_H

#include "src/formats/iq_grids.h"

struct weft__iq2_xs {
    uint16_t d; // f16
    uint16_t q[32];
    uint8_t scales[8];
};

static inline void weft__iq2_xs_decode(const struct weft__iq2_xs *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int l = 0; l < 32; l++) {
        int scale = block->scales[l / 4] >> 4 * (l / 2 & 1) & 15;
        weft__iq_point8(weft__iq2_xs_grid[block->q[l] & 511], weft__iq_signs(block->q[l] >> 9),
                        d * (0.5f + (float)scale) * 0.25f, y + 8 * l);
    }
}

WEFT__BLOCK_FORMAT(IQ2_XS, iq2_xs)

#endif
