// SPDX-License-Identifier: MIT
// Formats whose block is one element. The scales of fp8 and int8 weights (one for a tensor, a row or a
// block of columns) lie in a plane of their own and are applied after decoding (row.h).
#ifndef WEFT_FORMATS_PLAIN_H
#define WEFT_FORMATS_PLAIN_H

#include "src/formats/block.h"

typedef float weft__block_F32;
typedef uint16_t weft__block_F16;
typedef uint16_t weft__block_BF16;
typedef uint8_t weft__block_FP8_E4M3;
typedef uint8_t weft__block_FP8_E5M2;
typedef int8_t weft__block_INT8;

static inline void weft__decode_F32(const void *block, float *y)
{
    memcpy(y, block, sizeof *y);
}

static inline void weft__decode_F16(const void *block, float *y)
{
    *y = weft__f16_to_f32(*(const uint16_t *)block);
}

static inline void weft__decode_BF16(const void *block, float *y)
{
    *y = weft__bf16_to_f32(*(const uint16_t *)block);
}

static inline void weft__decode_FP8_E4M3(const void *block, float *y)
{
    *y = weft__fp8_e4m3_to_f32(*(const uint8_t *)block);
}

static inline void weft__decode_FP8_E5M2(const void *block, float *y)
{
    *y = weft__fp8_e5m2_to_f32(*(const uint8_t *)block);
}

static inline void weft__decode_INT8(const void *block, float *y)
{
    *y = (float)*(const int8_t *)block;
}

#endif
