// SPDX-License-Identifier: MIT
// IQ1_S: 256 numbers in 8 groups of 32, each four points of a ternary lattice, a shift and a 3-bit scale.
//
//      byte  0    2          34                       50
//            | d  | q[32]   | qh[8] (16 bit each)    |
//
//      qh of group j:  | shift | scale (3) | high 3 bits of points 3, 2, 1, 0 |   from the top
//      elements 8 l ..., group j = l / 4: point = q[l] | (qh_j >> 3 (l % 4) & 7) << 8
//      y = d * (2 scale + 1) * (digit -1, 0, 1 + (shift ? -1/8 : 1/8))
//
// Source: ggml-common.h (block_iq1_s, IQ1S_DELTA).
#ifndef WEFT_FORMATS_IQ1_S_H
#define WEFT_FORMATS_IQ1_S_H

#include "src/formats/iq_grids.h"

struct weft__iq1_s {
    uint16_t d; // f16
    uint8_t q[32];
    uint16_t qh[8];
};

static inline void weft__iq1_s_decode(const struct weft__iq1_s *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int l = 0; l < 32; l++) {
        int qh = block->qh[l / 4];
        float scale = d * (float)(2 * (qh >> 12 & 7) + 1);
        weft__iq_point3(weft__iq1_grid[block->q[l] | (qh >> 3 * (l % 4) & 7) << 8],
                        qh & 0x8000 ? -0.125f : 0.125f, scale, y + 8 * l);
    }
}

WEFT__BLOCK_FORMAT(IQ1_S, iq1_s)

#endif
