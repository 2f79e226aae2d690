// SPDX-License-Identifier: MIT
// A pair of a packed tile as 16-bit numbers: four A fragments of m16n8k16, one per 16 columns, whose columns
// are in the order of linear_gemm_device.h. WEFT_BRAIN: bf16, else f16.
//
// The bytes of two codes become two numbers by standing under the exponent of 1024 (f16) or 128 (bf16),
// from which the offset is subtracted exactly (four-bit codes that are 16 times too large come down by the way); then
// comes the scale, rounded to 16 bits, and one rounding.
#ifndef WEFT_KERNELS_LINEAR_FRAGMENT_CUH
#define WEFT_KERNELS_LINEAR_FRAGMENT_CUH

#include "src/kernels/linear/linear_tile.cuh"

#if WEFT_BRAIN
#define FRAGMENT_BASE 0x43434343u
#define FRAGMENT_ONE  0x43004300u
#else
#define FRAGMENT_BASE 0x64646464u
#define FRAGMENT_ONE  0x64006400u
#endif

DEVICE uint32_t pair_subtract(uint32_t a, uint32_t b)
{
    return WEFT_BRAIN ? fma_bf16x2(b, 0xbf80bf80u, a) : sub_f16x2(a, b);
}

// a / 16 - b
DEVICE uint32_t pair_sixteenth(uint32_t a, uint32_t b)
{
    return fma_f16x2(a, 0x2c002c00u, b | 0x80008000u);
}

DEVICE uint32_t pair_scale(uint32_t a, uint32_t scale, uint32_t add)
{
    if (WEFT_BRAIN)
        return fma_bf16x2(a, scale, TILE_MIN ? add : 0x80008000u);
    return TILE_MIN ? fma_f16x2(a, scale, add) : mul_f16x2(a, scale);
}

DEVICE uint32_t pair_of(float value)
{
    return WEFT_BRAIN ? floats_bf16x2(value, value) : floats_f16x2(value, value);
}

// Bytes b and b + 2 of a word of codes, less the offset.
DEVICE uint32_t pair_number(uint32_t codes, uint32_t below, int32_t b, int32_t factor)
{
    const uint32_t places = b ? 0x4341u : 0x4240u;
    const uint32_t number = byte_permute(codes, FRAGMENT_BASE, places);
#if TILE_TABLE
    return pair_subtract(number, byte_permute(below, FRAGMENT_BASE, places));
#else
    (void)below;
    const uint32_t offset = TILE_SIGNED ? 128 : (uint32_t)-TILE_OFFSET;
    if (factor == 16) // 64, where the steps of f16 are 1/16
        return pair_sixteenth(number, 0x54005400u + (offset * 16 | offset * 16 << 16));
    return pair_subtract(number, FRAGMENT_ONE + (offset | offset << 16));
#endif
}

// fragment[2 h + k]: columns 32 h + WORD_STEP k + LANE_STEP c + 0..3 of pair p.
DEVICE void pair_fragments(const struct tile_scales *scales, const uint8_t *tile, int32_t pairs,
                           int32_t p, int32_t lane, uint32_t fragment[4][4])
{
    uint32_t a[2][4], below[2][4];
    pair_codes(tile, pairs, p, lane, a, below);
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        float scale[2][SIXTEENS], add[2][SIXTEENS] = {};
        unit_scales(scales, pairs, p, h, lane / 4, scale, add);
#pragma unroll
        for (int32_t j = 0; j < 4; j++) {
#if FORMAT_IS_F16_PER_32 && !WEFT_BRAIN // as they are
            const uint32_t both = *(const uint32_t *)unit_halves(scales, p, h, lane / 4);
            const uint32_t by = byte_permute(both, 0, j % 2 ? 0x3232 : 0x1010);
#else
            const uint32_t by = pair_of(word_scale(scale[j % 2], lane % 4, j));
#endif
            uint32_t plus = TILE_MIN ? pair_of(word_scale(add[j % 2], lane % 4, j)) : 0;
            uint32_t codes = TILE_SIGNED ? a[h][j] ^ 0x80808080u : a[h][j];
#pragma unroll
            for (int32_t b = 0; b < 2; b++)
                fragment[2 * h + j / 2][j % 2 + 2 * b] = pair_scale(
                    pair_number(codes, TILE_TABLE ? below[h][j] : 0, b, UNIT_FACTOR(h)), by, plus);
        }
    }
}

#endif
