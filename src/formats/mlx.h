// SPDX-License-Identifier: MIT
// MLX affine formats: groups of 32, 64 or 128 codes of 2, 3, 4, 5, 6 or 8 bits. A block is the codes of
// one group; scales and biases (f16, bf16 or f32, one of each a group) are planes of their own.
//
//      code i of a row = bits [i * bits, (i + 1) * bits) of the row, lowest bits first
//
//      3 bits   byte  0         1         2
//                     22111000  54443332  77766655      codes 2 and 5 straddle bytes, and with 32-bit
//                                                       words, in which MLX stores them, words
//
//      y_i = scale * code_i + bias; the scale may be negative
//
// Source: MLX, mlx/backend/cpu/quantized.cpp (extract_bits), mlx/ops.cpp (affine_quantize).
#ifndef WEFT_FORMATS_MLX_H
#define WEFT_FORMATS_MLX_H

#include "src/formats/block.h"

static inline int weft__mlx_code(const uint8_t *codes, int bits, int i)
{
    int at = i * bits, shift = at % 8;
    unsigned word = codes[at / 8];
    if (shift + bits > 8)
        word |= (unsigned)codes[at / 8 + 1] << 8;
    return (int)(word >> shift & ((1u << bits) - 1));
}

static inline void weft__mlx_decode(const uint8_t *codes, int bits, int count, float *y)
{
    for (int i = 0; i < count; i++)
        y[i] = (float)weft__mlx_code(codes, bits, i);
}

#define WEFT__MLX_GROUP(bits, group)                                                               \
    typedef struct weft__mlx_q##bits##_g##group {                                                  \
        uint8_t q[(group) * (bits) / 8];                                                           \
    } weft__block_MLX_Q##bits##_G##group;                                                          \
    static inline void weft__decode_MLX_Q##bits##_G##group(const void *block, float *y)            \
    {                                                                                              \
        weft__mlx_decode((const uint8_t *)block, bits, group, y);                                  \
    }

#define WEFT__MLX_BITS(bits)                                                                       \
    WEFT__MLX_GROUP(bits, 32)                                                                      \
    WEFT__MLX_GROUP(bits, 64)                                                                      \
    WEFT__MLX_GROUP(bits, 128)

WEFT__MLX_BITS(2)
WEFT__MLX_BITS(3)
WEFT__MLX_BITS(4)
WEFT__MLX_BITS(5)
WEFT__MLX_BITS(6)
WEFT__MLX_BITS(8)

#endif
