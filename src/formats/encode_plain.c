// SPDX-License-Identifier: MIT
// Plain elements, and the codes of MLX groups.
#include "src/formats/encode.h"

void weft__encode_F32(const float *x, const float *weights, void *block)
{
    (void)weights;
    memcpy(block, x, sizeof *x);
}

void weft__encode_F16(const float *x, const float *weights, void *block)
{
    (void)weights;
    *(uint16_t *)block = weft__f16_from_f32(*x);
}

void weft__encode_BF16(const float *x, const float *weights, void *block)
{
    (void)weights;
    *(uint16_t *)block = weft__bf16_from_f32(*x);
}

void weft__encode_FP8_E4M3(const float *x, const float *weights, void *block)
{
    (void)weights;
    *(uint8_t *)block = weft__fp8_e4m3_from_f32(*x);
}

void weft__encode_FP8_E5M2(const float *x, const float *weights, void *block)
{
    (void)weights;
    *(uint8_t *)block = weft__fp8_e5m2_from_f32(*x);
}

void weft__encode_INT8(const float *x, const float *weights, void *block)
{
    (void)weights;
    *(int8_t *)block = (int8_t)weft__nearest(*x, -128, 127);
}

static void encode_mlx(const float *x, uint8_t *codes, int bits, int count)
{
    memset(codes, 0, (size_t)(count * bits / 8));
    for (int i = 0; i < count; i++) {
        int at = i * bits;
        unsigned code = (unsigned)weft__nearest(x[i], 0, (1 << bits) - 1) << at % 8;
        codes[at / 8] = (uint8_t)(codes[at / 8] | code);
        if (at % 8 + bits > 8)
            codes[at / 8 + 1] = (uint8_t)(code >> 8);
    }
}

#define ENCODE_GROUP(bits, group)                                                                  \
    void weft__encode_MLX_Q##bits##_G##group(const float *x, const float *weights, void *block)    \
    {                                                                                              \
        (void)weights;                                                                             \
        encode_mlx(x, block, bits, group);                                                         \
    }

#define ENCODE_BITS(bits)                                                                          \
    ENCODE_GROUP(bits, 32)                                                                         \
    ENCODE_GROUP(bits, 64)                                                                         \
    ENCODE_GROUP(bits, 128)

ENCODE_BITS(2)
ENCODE_BITS(3)
ENCODE_BITS(4)
ENCODE_BITS(5)
ENCODE_BITS(6)
ENCODE_BITS(8)
