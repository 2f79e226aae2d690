// SPDX-License-Identifier: MIT
// Weights from the order of a file into packed tiles (linear_device.h draws both sides), a thread per
// word of 4 bytes. Function constants: WEFT_FORMAT, WEFT_SCALE_DTYPE (MLX).
#include "src/kernels/cuda/types.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_format.cuh"

// A row of 16 in its tile, or NULL past the last.
struct tile_place {
    const struct weft__linear_pack_args *args;
    int32_t row, col; // of the tile's corner
};

DEVICE const uint8_t *tile_block(const struct tile_place *at, int32_t row, int32_t col)
{
    row += at->row, col += at->col;
    if (row >= at->args->rows || col >= at->args->cols)
        return 0;
    return (const uint8_t *)at->args->weight + row * at->args->weight_stride_bytes +
           (int64_t)(col / BLOCK_ELEMS) * BLOCK_BYTES;
}

#if TILE_GRID
#include "src/kernels/linear/linear_pack_grid.cuh"
#else

#if WEFT_FORMAT == FORMAT_TQ1_0
// Element e of a block: digit n of the byte that has it, a fraction to the base 3 (src/formats/tq1_0.h draws the block).
DEVICE uint32_t ternary_digit(const uint8_t *block, int32_t e)
{
    const int32_t byte = e < 160 ? e % 32 : e < 240 ? 32 + e % 16 : 48 + e % 4;
    const int32_t n = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4;
    uint32_t fraction = block[byte];
    for (int32_t i = 0; i < n; i++)
        fraction = fraction * 3 & 255u;
    return fraction * 3 >> 8;
}
#endif

// The bits of element e of a block, as a number without its offset.
DEVICE uint32_t block_code(const uint8_t *block, int32_t e)
{
#if WEFT_FORMAT == FORMAT_Q8_0
    return block[2 + e];
#elif WEFT_FORMAT == FORMAT_Q4_0 || WEFT_FORMAT == FORMAT_IQ4_NL
    return block[2 + e % 16] >> e / 16 * 4 & 15;
#elif WEFT_FORMAT == FORMAT_MXFP4
    return block[1 + e % 16] >> e / 16 * 4 & 15;
#elif WEFT_FORMAT == FORMAT_Q4_1
    return block[4 + e % 16] >> e / 16 * 4 & 15;
#elif WEFT_FORMAT == FORMAT_Q5_0 || WEFT_FORMAT == FORMAT_Q5_1
    const uint8_t *high = block + BLOCK_BYTES - 20;
    return (high[4 + e % 16] >> e / 16 * 4 & 15) | (high[e / 8] >> e % 8 & 1) << 4;
#elif WEFT_FORMAT == FORMAT_Q2_K
    return block[16 + e / 128 * 32 + e % 32] >> e % 128 / 32 * 2 & 3;
#elif WEFT_FORMAT == FORMAT_Q3_K
    return (block[32 + e / 128 * 32 + e % 32] >> e % 128 / 32 * 2 & 3) |
           (block[e % 32] >> e / 32 & 1) << 2;
#elif WEFT_FORMAT == FORMAT_Q4_K
    return block[16 + e / 64 * 32 + e % 32] >> e / 32 % 2 * 4 & 15;
#elif WEFT_FORMAT == FORMAT_Q5_K
    return (block[48 + e / 64 * 32 + e % 32] >> e / 32 % 2 * 4 & 15) |
           (block[16 + e % 32] >> e / 32 & 1) << 4;
#elif WEFT_FORMAT == FORMAT_Q6_K
    int32_t g = e % 128 / 32;
    return (block[e / 128 * 64 + g % 2 * 32 + e % 32] >> g / 2 * 4 & 15) |
           (block[128 + e / 128 * 32 + e % 32] >> 2 * g & 3) << 4;
#elif WEFT_FORMAT == FORMAT_TQ1_0
    return ternary_digit(block, e);
#elif WEFT_FORMAT == FORMAT_TQ2_0
    return block[e / 128 * 32 + e % 32] >> e % 128 / 32 * 2 & 3;
#elif WEFT_FORMAT == FORMAT_IQ4_XS
    return block[8 + e / 32 * 16 + e % 16] >> e % 32 / 16 * 4 & 15;
#elif WEFT_FORMAT == FORMAT_NVFP4
    return block[4 + e / 16 * 8 + e % 8] >> e % 16 / 8 * 4 & 15;
#else // mlx: a stream of bits
    int32_t bit = e * TILE_BITS;
    uint32_t bits = block[bit / 8];
    if (bit % 8 + TILE_BITS > 8)
        bits |= (uint32_t)block[bit / 8 + 1] << 8;
    return bits >> bit % 8 & ((1 << TILE_BITS) - 1);
#endif
}

DEVICE uint32_t tile_code(const struct tile_place *at, int32_t lane, int32_t unit, int32_t j,
                          int32_t b)
{
    int32_t row = lane / 4 + j % 2 * 8, col = unit * 32 + j / 2 * 16 + lane % 4 * 4 + b;
    const uint8_t *block = tile_block(at, row, col);
    return block ? block_code(block, col % BLOCK_ELEMS) : 0;
}

DEVICE uint32_t low_word(const struct tile_place *at, int32_t word)
{
    uint32_t bits = 0;
#if TILE_BITS == 8
    for (int32_t b = 0; b < 4; b++)
        bits |= tile_code(at, word % 128 / 4, word / 128, word % 4, b) << 8 * b;
#elif TILE_BITS >= 4
    for (int32_t h = 0; h < 2; h++)
        for (int32_t b = 0; b < 4; b++)
            bits |= (tile_code(at, word % 128 / 4, word / 128 * 2 + h, word % 4, b) & 15)
                    << (TILE_TABLE ? 4 * b + 16 * h : 8 * b + 4 * h);
#elif TILE_BITS == 3
    const int32_t lane = word % 64 / 2, unit = word / 64 * 2, g = word % 2 * 2;
    for (int32_t b = 0; b < 4; b++)
        bits |= ((tile_code(at, lane, unit + 1, 1 + g, b) & 3) |
                 tile_code(at, lane, unit, g, b) << 2 | tile_code(at, lane, unit, 1 + g, b) << 5)
                << 8 * b;
#else
    for (int32_t k = 0; k < 4; k++)
        for (int32_t b = 0; b < 4; b++)
            bits |= tile_code(at, word % 64 / 2, word / 64 * 2 + k / 2, word % 2 * 2 + k % 2, b)
                    << (8 * b + 2 * k);
#endif
    return bits;
}

DEVICE uint32_t high_word(const struct tile_place *at, int32_t word)
{
    uint32_t bits = 0;
#if TILE_BITS == 6
    for (int32_t j = 0; j < 4; j++)
        for (int32_t b = 0; b < 4; b++)
            bits |= tile_code(at, word % 64 / 2, word / 64 * 2 + word % 2, j, b) >>
                    4 << (8 * b + 2 * j);
#elif TILE_BITS == 3
    const int32_t lane = word % 32, unit = word / 32 * 2 + 1;
    for (int32_t b = 0; b < 4; b++)
        bits |= (tile_code(at, lane, unit, 1, b) >> 2 | tile_code(at, lane, unit, 3, b) >> 2 << 1 |
                 tile_code(at, lane, unit, 0, b) << 2 | tile_code(at, lane, unit, 2, b) << 5)
                << 8 * b;
#elif TILE_BITS == 5
    for (int32_t h = 0; h < 2; h++)
        for (int32_t j = 0; j < 4; j++)
            for (int32_t b = 0; b < 4; b++)
                bits |= tile_code(at, word % 32, word / 32 * 2 + h, j, b) >>
                        (TILE_BITS - 1) << (8 * b + 2 * j + h);
#else
    (void)at, (void)word;
#endif
    return bits;
}

#if FORMAT_IS_MLX
DEVICE uint32_t meta_byte(const struct tile_place *at, int32_t pairs, int32_t i)
{
    const int32_t span = MLX_GROUP == 32 ? 128 : 64, cols = MLX_GROUP == 128 ? 128 : 64;
    (void)pairs;
    int32_t r = i % span / (span / 8), in = i % (span / 8);
    int32_t row = at->row + r + in % 8 / 4 * 8, col = at->col + i / span * cols + in / 8 * 32;
    const void *plane = in % 4 < 2 ? at->args->scales : at->args->biases;
    if (!plane) // 1, 0
        return in % 4 != 1 ? (in % 4 == 0 && WEFT_SCALE_DTYPE == 3 ? 0x80 : 0)
                           : (WEFT_SCALE_DTYPE == 3 ? 0x3f : 0x3c);
    if (row >= at->args->rows || col >= at->args->cols)
        return 0;
    return (
        (const uint8_t *)plane)[row * at->args->scales_stride_bytes + col / MLX_GROUP * 2 + in % 2];
}
#else
// Byte i of a tile's scales.
DEVICE uint32_t meta_byte(const struct tile_place *at, int32_t pairs, int32_t i)
{
    int32_t row, col = 0, byte;
    uint32_t flip = 0;
    (void)pairs;
#if FORMAT_IS_F16_PER_32 || FORMAT_IS_F16_PAIR_PER_32
    int32_t plane = i / (pairs * 64), in = i % (pairs * 64);
    row = in % 64 / 8 + in % 4 / 2 * 8, col = in / 64 * 64 + in % 8 / 4 * 32,
    byte = plane * 2 + in % 2;
#elif WEFT_FORMAT == FORMAT_MXFP4
    row = i % 32 / 4 + i % 2 * 8, col = i / 32 * 64 + i % 4 / 2 * 32, byte = 0;
#elif WEFT_FORMAT == FORMAT_NVFP4
    row = i % 64 / 8 + i % 8 / 4 * 8, col = i / 64 * 64, byte = i % 4;
#elif WEFT_FORMAT == FORMAT_Q4_K || WEFT_FORMAT == FORMAT_Q5_K
    row = i / 16, byte = i % 16;
#elif WEFT_FORMAT == FORMAT_Q6_K
    row = i < 256 ? i / 16 : (i - 256) / 2;
    byte = i < 256 ? 192 + i % 16 : 208 + i % 2, flip = i < 256 ? 0x80 : 0;
#elif WEFT_FORMAT == FORMAT_Q3_K
    row = i < 192 ? i / 12 : (i - 192) / 2, byte = i < 192 ? 96 + i % 12 : 108 + i % 2;
#elif WEFT_FORMAT == FORMAT_Q2_K
    row = i < 256 ? i / 16 : (i - 256) / 4, byte = i < 256 ? i % 16 : 80 + i % 4;
#elif WEFT_FORMAT == FORMAT_IQ4_XS
    row = i / 8, byte = i % 8;
#elif FORMAT_IS_TERNARY
    row = i / 4 + i % 4 / 2 * 8, byte = BLOCK_BYTES - 2 + i % 2;
#endif
    const uint8_t *block = tile_block(at, row, col);
    const uint32_t is = block ? block[byte] ^ flip : 0;
#if WEFT_FORMAT == FORMAT_NVFP4 // 0x7f is 0, and the top bit says nothing else
    return is == 0x7f ? 0 : is & 0x7f;
#else
    return is;
#endif
}
#endif

DEVICE uint32_t meta_word(const struct tile_place *at, int32_t pairs, int32_t word)
{
    uint32_t bits = 0;
    for (int32_t b = 0; b < 4; b++)
        bits |= meta_byte(at, pairs, word * 4 + b) << 8 * b;
    return bits;
}

#endif

// grid (blocks of 16 rows, tiles of a row)
extern "C" __global__ void
weft_linear_pack(const __grid_constant__ struct weft__linear_pack_args args)
{
    int32_t tile = (int32_t)blockIdx.y, row_block = (int32_t)blockIdx.x;
    int32_t all = (args.cols + 63) / 64, pairs = all - tile * 4 < 4 ? all - tile * 4 : 4;
    struct tile_place at = {&args, row_block * 16, tile * 256};
    int64_t row_bytes =
        TILE_SUPER ? (int64_t)(args.cols / 256) * TILE_BYTES(4) : (int64_t)all * TILE_BYTES(1);
    uint32_t *to =
        (uint32_t *)((uint8_t *)args.packed + (args.first_row / 16 + row_block) * row_bytes +
                     (int64_t)tile * TILE_BYTES(4));
    const int32_t low = pairs * PAIR_LOW / 4, high = pairs * PAIR_HIGH / 4;
    for (int32_t i = (int32_t)threadIdx.x; i < TILE_BYTES(pairs) / 4; i += (int32_t)blockDim.x) {
        uint32_t word = 0;
        if (i < low)
            word = low_word(&at, i);
        else if (i < low + high)
            word = high_word(&at, i - low);
        else
            word = meta_word(&at, pairs, i - low - high);
        to[i] = word;
    }
}
