// SPDX-License-Identifier: MIT
// IQ4_XS: 256 nibbles that choose levels of iq4_nl, in 8 groups of 32, each with a 6-bit scale around 32.
//
//      byte  0    2          4            8                      136
//            | d  | scales_h | scales_l[4]| q[128]              |
//
//      group j: scale = (scales_l[j / 2] >> 4 (j & 1) & 15 | (scales_h >> 2 j & 3) << 4) - 32
//               its 16 bytes q[16 j ...] hold elements l (low nibble) and l + 16 (high), as in iq4_nl
//      y_i = d * scale_j * level[nibble]
//
// Source: ggml-common.h (block_iq4_xs).
#ifndef WEFT_FORMATS_IQ4_XS_H
#define WEFT_FORMATS_IQ4_XS_H

#include "src/formats/iq4_nl.h"

struct weft__iq4_xs {
    uint16_t d; // f16
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t q[128];
};

// The scale -32..31 of group j.
static inline int weft__iq4_xs_scale(const struct weft__iq4_xs *block, int j)
{
    int low = block->scales_l[j / 2] >> 4 * (j & 1) & 15;
    return (low | (block->scales_h >> 2 * j & 3) << 4) - 32;
}

static inline void weft__iq4_xs_decode(const struct weft__iq4_xs *block, float y[256])
{
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 8; j++) {
        float scale = d * (float)weft__iq4_xs_scale(block, j);
        for (int l = 0; l < 16; l++) {
            int b = block->q[16 * j + l];
            y[32 * j + l] = scale * (float)weft__iq4_levels[b & 15];
            y[32 * j + l + 16] = scale * (float)weft__iq4_levels[b >> 4];
        }
    }
}

WEFT__BLOCK_FORMAT(IQ4_XS, iq4_xs)

#endif
