// SPDX-License-Identifier: MIT
// Blocks of lattice formats as words of a tile (linear_device.h). Included by linear_pack.cu.
#ifndef WEFT_KERNELS_LINEAR_PACK_GRID_CUH
#define WEFT_KERNELS_LINEAR_PACK_GRID_CUH

DEVICE uint32_t bytes_2(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

DEVICE uint32_t bytes_4(const uint8_t *at)
{
    return bytes_2(at) | bytes_2(at + 2) << 16;
}

// The number of point l of a block.
DEVICE uint32_t block_point(const uint8_t *block, int32_t l)
{
#if WEFT_FORMAT == FORMAT_IQ2_XXS
    return block[2 + l / 4 * 8 + l % 4];
#elif WEFT_FORMAT == FORMAT_IQ2_XS
    return bytes_2(block + 2 + 2 * l) & 511;
#elif WEFT_FORMAT == FORMAT_IQ2_S
    return block[2 + l] | (block[66 + l / 4] >> 2 * (l % 4) & 3) << 8;
#elif WEFT_FORMAT == FORMAT_IQ3_XXS
    return block[2 + l];
#elif WEFT_FORMAT == FORMAT_IQ3_S
    return block[2 + l] | (block[66 + l / 8] >> l % 8 & 1) << 8;
#elif WEFT_FORMAT == FORMAT_IQ1_S
    return block[2 + l] | (bytes_2(block + 34 + l / 4 * 2) >> 3 * (l % 4) & 7) << 8;
#else
    return block[l] | (block[32 + l / 2] >> 4 * (l & 1) & 7) << 8;
#endif
}

// Signs of the eight columns l, seven where the eighth follows from them; of iq1_m the shift.
DEVICE uint32_t block_signs(const uint8_t *block, int32_t l)
{
#if WEFT_FORMAT == FORMAT_IQ2_XXS
    return bytes_4(block + 6 + l / 4 * 8) >> 7 * (l % 4) & 127;
#elif WEFT_FORMAT == FORMAT_IQ2_XS
    return bytes_2(block + 2 + 2 * l) >> 9;
#elif WEFT_FORMAT == FORMAT_IQ2_S
    return block[34 + l];
#elif WEFT_FORMAT == FORMAT_IQ3_XXS
    return bytes_4(block + 66 + l / 4 * 4) >> 7 * (l % 4) & 127;
#elif WEFT_FORMAT == FORMAT_IQ3_S
    return block[74 + l];
#elif WEFT_FORMAT == FORMAT_IQ1_M
    return block[32 + l / 2] >> (4 * (l & 1) + 3) & 1;
#else
    return 0;
#endif
}

// As a tile has them: where the eighth follows from the others, bit n is the sum of 0..n modulo 2 (grid_signs()).
DEVICE uint32_t tile_signs(uint32_t signs)
{
#if WEFT_FORMAT == FORMAT_IQ2_XXS || WEFT_FORMAT == FORMAT_IQ2_XS || WEFT_FORMAT == FORMAT_IQ3_XXS
#if WEFT_FORMAT ==                                                                                 \
    FORMAT_IQ3_XXS // of what is above zero; 0 4 1 5 2 6 3, where bits lie one behind the other
    signs = ~signs;
    signs = (signs & 1) | (signs & 2) << 1 | (signs & 4) << 2 | (signs & 8) << 3 |
            (signs & 16) >> 3 | (signs & 32) >> 2 | (signs & 64) >> 1;
#endif
    signs ^= signs << 1;
    signs ^= signs << 2;
    signs = (signs ^ signs << 4) & 127;
#endif
    return signs;
}

// The bits of scale k, of a unit or of a sixteen; of iq1_s with the shift on top.
DEVICE uint32_t block_scale(const uint8_t *block, int32_t k)
{
#if WEFT_FORMAT == FORMAT_IQ2_XXS
    return block[9 + k * 8] >> 4;
#elif WEFT_FORMAT == FORMAT_IQ2_XS
    return block[66 + k / 2] >> 4 * (k & 1) & 15;
#elif WEFT_FORMAT == FORMAT_IQ2_S
    return block[74 + k / 2] >> 4 * (k & 1) & 15;
#elif WEFT_FORMAT == FORMAT_IQ3_XXS
    return block[69 + k * 4] >> 4;
#elif WEFT_FORMAT == FORMAT_IQ3_S
    return block[106 + k / 2] >> 4 * (k & 1) & 15;
#elif WEFT_FORMAT == FORMAT_IQ1_S
    return block[35 + 2 * k] >> 4;
#else
    return bytes_2(block + 48 + k / 4 * 2) >> 3 * (k % 4) & 7;
#endif
}

DEVICE uint32_t block_d(const uint8_t *block)
{
#if WEFT_FORMAT == FORMAT_IQ1_M
    return block[49] >> 4 | block[51] >> 4 << 4 | block[53] >> 4 << 8 | block[55] >> 4 << 12;
#else
    return bytes_2(block);
#endif
}

// The block of row r + 8 i of a lane, or NULL.
DEVICE const uint8_t *lane_block(const struct tile_place *at, int32_t lane, int32_t i)
{
    return tile_block(at, lane / 4 + 8 * i, 0);
}

// Point e of a lane's pair, with four columns a point number k = 0, 1 of them.
DEVICE uint32_t lane_point(const struct tile_place *at, int32_t lane, int32_t pair, int32_t e,
                           int32_t k)
{
    const uint8_t *block = lane_block(at, lane, e / 2);
    const int32_t unit = 2 * pair + e % 2, c = lane % 4;
    const int32_t of_four = TILE_EIGHTS ? 2 * c + k : 4 * k + c;
    return block ? block_point(block, TILE_GRID == 8 ? 4 * unit + c : 8 * unit + of_four) : 0;
}

DEVICE uint32_t lane_points(const struct tile_place *at, int32_t lane, int32_t pair, int32_t k)
{
    uint32_t bits = 0;
    for (int32_t e = 0; e < 4; e++)
        bits |= (lane_point(at, lane, pair, e, k) & 255) << 8 * e;
    return bits;
}

// Scale number q of a lane, one of the four of its pair of units.
DEVICE uint32_t lane_scale(const struct tile_place *at, int32_t lane, int32_t q)
{
    const uint8_t *block = lane_block(at, lane, q / 2);
    return block ? block_scale(block, 2 * (lane % 4) + q % 2) : 0;
}

// What a lane has of a pair beside the low bits of points.
DEVICE uint32_t lane_bits(const struct tile_place *at, int32_t lane, int32_t pair)
{
    uint32_t bits = 0;
    for (int32_t e = 0; e < 4; e++) {
        const uint8_t *block = lane_block(at, lane, e / 2);
        const int32_t unit = 2 * pair + e % 2, c = lane % 4;
        if (!block)
            continue;
#if WEFT_FORMAT == FORMAT_IQ1_S
        bits |= lane_point(at, lane, pair, e, 0) >> 8 << 3 * e;
#elif WEFT_FORMAT == FORMAT_IQ1_M
        bits |= lane_point(at, lane, pair, e, 0) >> 8 << (4 + 3 * e) |
                block_signs(block, 4 * unit + c) << e;
#elif WEFT_FORMAT == FORMAT_IQ3_S
        for (int32_t k = 0; k < 2; k++) // columns 16 k + 4 c ..
            for (int32_t b = 0; b < 4; b++)
                bits |= (block_signs(block, 4 * unit + 2 * k + c / 2) >> (c % 2 * 4 + b) & 1)
                        << (8 * b + 4 * k + e);
#else
        const uint32_t signs = tile_signs(block_signs(block, 4 * unit + c));
        for (int32_t n = 0; n < 8; n++)
            bits |= (signs >> n & 1) << 4 * n << ((WEFT_FORMAT == FORMAT_IQ2_XS ? 4 : 0) + e);
#endif
#if WEFT_FORMAT == FORMAT_IQ2_XS
        bits |= lane_point(at, lane, pair, e, 0) >> 8 << e;
#endif
    }
#if WEFT_FORMAT == FORMAT_IQ2_XXS || WEFT_FORMAT == FORMAT_IQ3_XXS
    bits |= lane_scale(at, lane, pair) << 28;
#elif WEFT_FORMAT == FORMAT_IQ1_S
    bits |= lane_scale(at, lane, pair) << 12;
#endif
    return bits;
}

DEVICE uint32_t low_word(const struct tile_place *at, int32_t word)
{
#if PAIR_LOW == 128
    return lane_points(at, word % 32, word / 32, 0);
#else
    const int32_t lane = word % 64 / 2, pair = word / 64;
    return TILE_GRID == 8 && word % 2 ? lane_bits(at, lane, pair)
                                      : lane_points(at, lane, pair, word % 2);
#endif
}

DEVICE uint32_t high_word(const struct tile_place *at, int32_t word)
{
#if PAIR_HIGH == 64
    const int32_t lane = word % 16 * 2, pair = word / 16;
    return lane_bits(at, lane, pair) | lane_bits(at, lane + 1, pair) << 16;
#else
    return lane_bits(at, word % 32, word / 32);
#endif
}

// Bits 8 and up of a lane's points: a byte a pair.
DEVICE uint32_t lane_tops(const struct tile_place *at, int32_t lane)
{
    const int32_t width = WEFT_FORMAT == FORMAT_IQ2_S ? 2 : 1;
    uint32_t bits = 0;
    for (int32_t pair = 0; pair < 4; pair++)
        for (int32_t k = 0; k < 8 / TILE_GRID; k++)
            for (int32_t e = 0; e < 4; e++)
                bits |= lane_point(at, lane, pair, e, k) >> 8 << (8 * pair + width * (4 * k + e));
    return bits;
}

// Scales of sixteens.
DEVICE uint32_t lane_sixteens(const struct tile_place *at, int32_t lane)
{
    uint32_t bits = 0;
    for (int32_t f = 0; f < 8; f++) {
        const uint8_t *block = lane_block(at, lane, f / 4);
        const int32_t place = WEFT_FORMAT == FORMAT_IQ1_M ? 8 * (f % 4) + 3 * (f / 4) : 4 * f;
        if (block)
            bits |= block_scale(block, 2 * (lane % 4 + f / 2 % 2 * 4) + f % 2) << place;
    }
    return bits;
}

DEVICE uint32_t row_d(const struct tile_place *at, int32_t r)
{
    uint32_t bits = 0;
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *block = lane_block(at, 4 * r, i);
        bits |= block ? block_d(block) << 16 * i : 0;
    }
    return bits;
}

DEVICE uint32_t meta_word(const struct tile_place *at, int32_t pairs, int32_t word)
{
    const int32_t last = TILE_META / 4 - 8; // where d of rows begin
    (void)pairs;
#if WEFT_FORMAT == FORMAT_IQ1_M
    (void)last;
    return lane_sixteens(at, word) | (row_d(at, word / 4) >> 2 * (word % 4) & 0x03030303u) << 6;
#else
    if (word >= last)
        return row_d(at, word - last);
#if WEFT_FORMAT == FORMAT_IQ2_XS
    return lane_sixteens(at, word);
#elif WEFT_FORMAT == FORMAT_IQ2_S
    return word < 32 ? lane_tops(at, word) : lane_sixteens(at, word - 32);
#elif WEFT_FORMAT == FORMAT_IQ3_S
    if (word < 32)
        return lane_tops(at, word);
    uint32_t bits = 0;
    for (int32_t q = 0; q < 8; q++)
        bits |= lane_scale(at, (word - 32) * 2 + q / 4, q % 4) << 4 * q;
    return bits;
#else
    return 0;
#endif
#endif
}

#endif
