// SPDX-License-Identifier: MIT
// The lattices of the i-quants: points of eight (iq2, iq1) or four (iq3) coordinates.
//
// <name>_grid.def lists the points as 16-bit codes, lowest bits first; what a field stands for:
//
//      iq2_xxs iq2_xs iq2_s    2 bits    8 25 43
//      iq3_xxs                 4 bits    4 12 20 28 36 44 52 62
//      iq3_s                   4 bits    1 3 5 7 9 11 13 15
//      iq1 (iq1_s, iq1_m)      2 bits    -1 0 1
//
// The tables below hold the coordinates as bytes, the first one lowest.
//
// Source: the grids of ggml-common.h; ksigns_iq2xs there is weft__iq_signs().
#ifndef WEFT_FORMATS_IQ_GRIDS_H
#define WEFT_FORMATS_IQ_GRIDS_H

#include "src/formats/block.h"

extern const uint64_t weft__iq2_xxs_grid[256];
extern const uint64_t weft__iq2_xs_grid[512];
extern const uint64_t weft__iq2_s_grid[1024];
extern const uint32_t weft__iq3_xxs_grid[256];
extern const uint32_t weft__iq3_s_grid[512];
extern const uint64_t weft__iq1_grid[2048];

// Seven signs, and the eighth that makes the number of negative ones even.
static inline uint8_t weft__iq_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(seven | (parity & 1) << 7);
}

static inline float weft__iq_signed(unsigned magnitude, int negative)
{
    return negative ? -(float)magnitude : (float)magnitude;
}

static inline void weft__iq_point8(uint64_t point, uint8_t signs, float scale, float y[8])
{
    for (int j = 0; j < 8; j++)
        y[j] = scale * weft__iq_signed(point >> 8 * j & 255, signs >> j & 1);
}

static inline void weft__iq_point4(uint32_t point, uint8_t signs, float scale, float y[4])
{
    for (int j = 0; j < 4; j++)
        y[j] = scale * weft__iq_signed(point >> 8 * j & 255, signs >> j & 1);
}

static inline void weft__iq_point3(uint64_t point, float shift, float scale, float y[8])
{
    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)(int8_t)(uint8_t)(point >> 8 * j) + shift);
}

#endif
