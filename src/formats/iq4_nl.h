// SPDX-License-Identifier: MIT
// IQ4_NL: 32 nibbles that choose one of 16 unevenly spaced levels, and a scale.
//
//      byte  0    2                         18
//            | d  | b0 b1 ...          b15 |      y_j      = d * level[b_j & 15]
//                                                 y_(j+16) = d * level[b_j >> 4]
//
// Source: ggml-common.h (block_iq4_nl, kvalues_iq4nl).
#ifndef WEFT_FORMATS_IQ4_NL_H
#define WEFT_FORMATS_IQ4_NL_H

#include "src/formats/block.h"

struct weft__iq4_nl {
    uint16_t d; // f16
    uint8_t q[16];
};

#define WEFT__IQ4_LEVELS                                                                           \
    {                                                                                              \
        -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113                   \
    }

static const int8_t weft__iq4_levels[16] = WEFT__IQ4_LEVELS;

static inline void weft__iq4_nl_decode(const struct weft__iq4_nl *block, float y[32])
{
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)weft__iq4_levels[block->q[j] & 15];
        y[j + 16] = d * (float)weft__iq4_levels[block->q[j] >> 4];
    }
}

WEFT__BLOCK_FORMAT(IQ4_NL, iq4_nl)

#endif
