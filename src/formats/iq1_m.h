// SPDX-License-Identifier: MIT
// IQ1_M: 256 numbers in 16 groups of 16, each two points of a ternary lattice with a shift, and a 3-bit
// scale for every group. The f16 scale of the block lies in the top nibbles of the others.
//
//      byte  0          32        48                          56
//            | q[32]   | qh[16]  | scales[4] (16 bit each)   |
//
//      elements 8 l ...: nibble h = qh[l / 2] >> 4 (l & 1) & 15
//                        point = q[l] | (h & 7) << 8, shift = h & 8 ? -1/8 : 1/8
//      group k = l / 2:  scale = scales[k / 4] >> 3 (k % 4) & 7
//      d = f16 of the top nibbles of scales[0] (lowest bits) to scales[3] (highest)
//      y = d * (2 scale + 1) * (digit -1, 0, 1 + shift)
//
// Source: ggml-common.h (block_iq1_m, IQ1M_DELTA).
#ifndef WEFT_FORMATS_IQ1_M_H
#define WEFT_FORMATS_IQ1_M_H

#include "src/formats/iq_grids.h"

struct weft__iq1_m {
    uint8_t q[32];
    uint8_t qh[16];
    uint16_t scales[4];
};

static inline float weft__iq1_m_scale(const struct weft__iq1_m *block)
{
    const uint16_t *s = block->scales;
    return weft__f16_to_f32(
        (uint16_t)(s[0] >> 12 | (s[1] >> 12) << 4 | (s[2] >> 12) << 8 | (s[3] >> 12) << 12));
}

static inline void weft__iq1_m_decode(const struct weft__iq1_m *block, float y[256])
{
    float d = weft__iq1_m_scale(block);
    for (int l = 0; l < 32; l++) {
        int h = block->qh[l / 2] >> 4 * (l & 1) & 15, k = l / 2;
        float scale = d * (float)(2 * (block->scales[k / 4] >> 3 * (k % 4) & 7) + 1);
        weft__iq_point3(weft__iq1_grid[block->q[l] | (h & 7) << 8], h & 8 ? -0.125f : 0.125f, scale,
                        y + 8 * l);
    }
}

WEFT__BLOCK_FORMAT(IQ1_M, iq1_m)

#endif
