// SPDX-License-Identifier: MIT
// NVFP4: 64 four-bit floating-point numbers (e2m1) in 4 groups of 16, each with an fp8 scale. A tensor
// has one f32 scale more, which lies beside it.
//
//      byte  0      4                                  36
//            | d[4] | q[32]                            |
//
//      group s: scale = d[s] as e4m3 without sign; 0x7f (NaN) counts as 0
//               its 8 bytes q[8 s ...] hold elements l (low nibble) and l + 8 (high)
//      y_i = scale_s / 2 * twice[nibble]           (twice: mxfp4.h)
//
// Source: ggml-common.h (block_nvfp4), ggml-impl.h (ggml_ue4m3_to_fp32).
#ifndef WEFT_FORMATS_NVFP4_H
#define WEFT_FORMATS_NVFP4_H

#include "src/formats/mxfp4.h"

struct weft__nvfp4 {
    uint8_t d[4]; // e4m3, the sign bit is not looked at
    uint8_t q[32];
};

// Half of the group's scale. 0xff is no NaN here: ggml reads it as 480.
static inline float weft__nvfp4_scale(uint8_t d)
{
    uint32_t magnitude = d & 0x7fu;
    if (d == 0x7f)
        return 0;
    if (magnitude >= 8)
        return weft__f32_from_bits((magnitude << 20) + 0x3b800000u);
    return (float)magnitude * 0x1p-10f;
}

static inline void weft__nvfp4_decode(const struct weft__nvfp4 *block, float y[64])
{
    for (int s = 0; s < 4; s++) {
        float scale = weft__nvfp4_scale(block->d[s]);
        for (int l = 0; l < 8; l++) {
            int b = block->q[8 * s + l];
            y[16 * s + l] = scale * (float)weft__e2m1_twice[b & 15];
            y[16 * s + l + 8] = scale * (float)weft__e2m1_twice[b >> 4];
        }
    }
}

WEFT__BLOCK_FORMAT(NVFP4, nvfp4)

#endif
