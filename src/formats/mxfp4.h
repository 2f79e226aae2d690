// SPDX-License-Identifier: MIT
// MXFP4: 32 four-bit floating-point numbers (e2m1) and an exponent (e8m0).
//
//      byte  0   1                         17
//            | e | b0 b1 ...          b15 |      y_j      = 2^(e - 128) * twice[b_j & 15]
//                                                y_(j+16) = 2^(e - 128) * twice[b_j >> 4]
//
//      twice: the e2m1 numbers 0 .5 1 1.5 2 3 4 6 and their negatives, doubled to be integers
//
// The exponent 255, NaN in the MX specification, is 2^127 here, as ggml has it.
// Source: ggml-common.h (block_mxfp4); OCP Microscaling Formats (MX) 1.0.
#ifndef WEFT_FORMATS_MXFP4_H
#define WEFT_FORMATS_MXFP4_H

#include "src/formats/block.h"

struct weft__mxfp4 {
    uint8_t e; // e8m0
    uint8_t q[16];
};

#define WEFT__E2M1_TWICE                                                                           \
    {                                                                                              \
        0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12                                    \
    }

static const int8_t weft__e2m1_twice[16] = WEFT__E2M1_TWICE;

// 2^(e - 128), subnormal for the two smallest.
static inline float weft__mxfp4_scale(uint8_t e)
{
    return weft__f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

static inline void weft__mxfp4_decode(const struct weft__mxfp4 *block, float y[32])
{
    float scale = weft__mxfp4_scale(block->e);
    for (int j = 0; j < 16; j++) {
        y[j] = scale * (float)weft__e2m1_twice[block->q[j] & 15];
        y[j + 16] = scale * (float)weft__e2m1_twice[block->q[j] >> 4];
    }
}

WEFT__BLOCK_FORMAT(MXFP4, mxfp4)

#endif
