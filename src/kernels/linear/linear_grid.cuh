// SPDX-License-Identifier: MIT
// Points of a lattice as A fragments: numbers of points in a tile (linear_device.h) become bytes with a sign through a table
// in shared memory, a word a point.
//
//      iq2          eight coordinates of 4 bits, places in a table of bytes: 0, 3, 5, any two of which differ in two bits, so that a
//                   sign may turn bit 0, 1 or 2 round, each with a table of its own
//      iq1_m        likewise 0, 1, 2, and bit 2 where the shift is below zero
//      iq1_s        byte b: coordinate b in the low four bits, 4 + b above; -1, 0, 1 with a sign
//      iq3          four magnitudes
#ifndef WEFT_KERNELS_LINEAR_GRID_CUH
#define WEFT_KERNELS_LINEAR_GRID_CUH

#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/types.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_format.cuh"

enum { GRID_POINTS = WEFT__LINEAR_GRID_POINTS(WEFT_FORMAT) };

#define FORMAT_IS_IQ2 (TILE_GRID == 8 && !FORMAT_IS_IQ1)
#define FORMAT_IS_IQ1 (WEFT_FORMAT == FORMAT_IQ1_S || WEFT_FORMAT == FORMAT_IQ1_M)
#define GRID_HAS_PARITY                                                                            \
    (WEFT_FORMAT == FORMAT_IQ2_XXS || WEFT_FORMAT == FORMAT_IQ2_XS || WEFT_FORMAT == FORMAT_IQ3_XXS)

// A kernel whose shared memory has room for it (grid_table()) gives every lane, or every two, a copy of the table in banks of its own
// (GRID_COPIES 32, 16), for lanes that look up points in one table take 3.5 turns, word by word: [point][copy].
#ifndef GRID_COPIES
#define GRID_COPIES 1
#endif
enum {
    GRID_STEP = 4 * GRID_COPIES, // bytes from point to point
    // where bit 8 of a number is in an address
    GRID_HIGH = GRID_COPIES == 32   ? 15
                : GRID_COPIES == 16 ? 14
                                    : 10,
};
#if GRID_COPIES == 1
__shared__ uint32_t grid_words[GRID_POINTS];

DEVICE uint8_t *grid_table()
{
    return (uint8_t *)grid_words;
}
#else
DEVICE uint8_t *grid_table();
#endif

// Where a lane's copy of the first point is: in the table, or if that is spread in shared memory.
DEVICE uint32_t grid_lane()
{
    return (GRID_COPIES > 1 ? shared_address(grid_table()) : 0) + threadIdx.x % GRID_COPIES * 4;
}

#define X(code) code,
__device__ const uint16_t grid_codes[GRID_POINTS] = {
#if WEFT_FORMAT == FORMAT_IQ2_XXS
#include "src/formats/iq2_xxs_grid.def"
#elif WEFT_FORMAT == FORMAT_IQ2_XS
#include "src/formats/iq2_xs_grid.def"
#elif WEFT_FORMAT == FORMAT_IQ2_S
#include "src/formats/iq2_s_grid.def"
#elif WEFT_FORMAT == FORMAT_IQ3_XXS
#include "src/formats/iq3_xxs_grid.def"
#elif WEFT_FORMAT == FORMAT_IQ3_S
#include "src/formats/iq3_s_grid.def"
#else
#include "src/formats/iq1_grid.def"
#endif
};
#undef X

// Four fields of 4 bits as bytes.
DEVICE uint32_t grid_spread(uint32_t fields)
{
    fields = (fields | fields << 8) & 0x00ff00ffu;
    return (fields | fields << 4) & 0x0f0f0f0fu;
}

DEVICE uint32_t grid_word(uint32_t code)
{
#if TILE_GRID == 4
    const uint32_t fields = grid_spread(code);
#if WEFT_FORMAT == FORMAT_IQ3_S
    return fields * 2 + 0x01010101u; // 1 3 5 .. 15
#else
    return fields * 8 + 0x04040404u + (fields + 0x01010101u >> 2 & 0x02020202u); // 4 12 .. 52 62
#endif
#else
    const uint32_t bytes = grid_spread(code);
    const uint32_t fours = (bytes | bytes << 2) & 0x33333333u;
#if WEFT_FORMAT == FORMAT_IQ1_S
    const uint32_t zeros = ~(fours | fours >> 1) & 0x11111111u;
    const uint32_t digits = (fours >> 1 & 0x11111111u) | zeros * 15;
    return grid_spread(digits & 0xffffu) | grid_spread(digits >> 16) << 4;
#elif FORMAT_IS_IQ2
    return fours << 1 | ((fours | fours >> 1) & 0x11111111u);
#else
    return fours;
#endif
#endif
}

// By all threads of a block; a barrier follows before anybody reads.
DEVICE void grid_load()
{
#if GRID_COPIES == 1
    for (int32_t i = (int32_t)threadIdx.x; i < GRID_POINTS; i += (int32_t)blockDim.x)
        grid_words[i] = grid_word(grid_codes[i]);
#else
    enum { FOURS = GRID_COPIES / 4 };
    for (int32_t i = (int32_t)threadIdx.x; i < GRID_POINTS * FOURS; i += (int32_t)blockDim.x) {
        const uint32_t word = grid_word(grid_codes[i / FOURS]);
        ((uint4 *)grid_table())[i] = make_uint4(word, word, word, word);
    }
#endif
}

// The point whose number is byte e of `low` and what `from` has of an address: one dot of bytes is the address.
DEVICE uint32_t grid_point(uint32_t low, int32_t e, uint32_t from)
{
    const uint32_t at = dot_4_unsigned(low, (uint32_t)GRID_STEP << 8 * e, from);
    return GRID_COPIES > 1 ? shared_word(at) : *(const uint32_t *)(grid_table() + at);
}

// What bits 8 and up of a number, `mask` of them, from bit `at` of a word, and the lane have of an address.
DEVICE uint32_t grid_from(uint32_t word, int32_t at, uint32_t mask)
{
    return GRID_HIGH >= at ? times_plus(word & mask << at,
                                        1u << (GRID_HIGH >= at ? GRID_HIGH - at : 0), grid_lane())
                           : (word >> (at - GRID_HIGH) & mask << GRID_HIGH) + grid_lane();
}

// Bits 8 of points e, at bits e, as bytes.
DEVICE uint32_t grid_tops(uint32_t bits)
{
    return times_plus(bits & 15u, 0x00204081u, 0) & 0x01010101u;
}

// Numbers of points 0, 1 and 2, 3 in halves of words, bytes e of `low` and above them those of `tops`: two operations for what
// grid_from() takes eight.
DEVICE uint2 grid_wide(uint32_t low, uint32_t tops)
{
    return make_uint2(byte_permute(low, tops, 0x5140u), byte_permute(low, tops, 0x7362u));
}

// The point whose number is that of e there.
DEVICE uint32_t grid_wide_point(uint2 wide, int32_t e)
{
    const uint32_t at =
        dot_2_unsigned(e < 2 ? wide.x : wide.y, (uint32_t)GRID_STEP << 8 * (e % 2), grid_lane());
    return GRID_COPIES > 1 ? shared_word(at) : *(const uint32_t *)(grid_table() + at);
}

#if GRID_HAS_PARITY
// Signs n at bits 4 n + e. The tile has sums of signs 0..n there, modulo 2, for n < 7 (xs: four bits higher): a sign is the difference of
// two of them, and the eighth, which makes the number of negative ones even, is the last of them.
DEVICE uint32_t grid_signs(uint32_t word)
{
    return WEFT_FORMAT == FORMAT_IQ2_XS ? (word & 0xfffffff0u) ^ word >> 4
                                        : (word & 0x0fffffffu) ^ word << 4;
}
#else
DEVICE uint32_t grid_signs(uint32_t word)
{
    return word;
}
#endif

// A constant that stays in a register: as the compiler knows, it is made anew wherever it is used. (The first point has zeros alone.)
DEVICE uint32_t grid_kept(uint32_t constant)
{
    return constant - (WEFT_FORMAT == FORMAT_IQ3_XXS ? 0x04040404u : 0) +
           *(const uint32_t *)(grid_table() + threadIdx.x % GRID_COPIES * 4);
}

// What a kernel of lattices waits for are the units of shifts, permutes and logic; those of dots and products have room. So the upper
// half of a word, with any bits above it, is a dot, and a difference is a product.
DEVICE uint32_t upper_half(uint32_t word)
{
    return (uint32_t)dot_2_low(word, 0x0100u, 0);
}

#if TILE_GRID == 8

#if WEFT_FORMAT == FORMAT_IQ1_M     // eight times the digit, and the shift
#define GRID_TABLE_0(e) 0x000901f9u // -7 1 9
#define GRID_TABLE_1(e) 0x0007fff7u // -9 -1 7
#else                               // where a sign is at bit 0, 1, 2 of a place
#define GRID_TABLE_0(e) ((e) == 0 ? 0x19e7f808u : (e) == 1 ? 0x19f8e708u : 0x1900d508u)
#define GRID_TABLE_1(e) ((e) == 0 ? 0x00002bd5u : (e) == 1 ? 0xd5002b00u : 0xe7002bf8u)
#endif

// The eight numbers of point e of a lane's pair: first and second four. bits: what stands beside `low`; wide: grid_wide(), where numbers
// have 9 or 10 bits.
DEVICE uint2 grid_numbers(uint32_t low, uint32_t bits, uint2 wide, int32_t e)
{
    (void)low, (void)wide;
#if WEFT_FORMAT == FORMAT_IQ1_S
    const uint32_t digits = grid_point(low, e, grid_from(bits, 3 * e, 7));
    return make_uint2(digits << 4 & 0xf0f0f0f0u, digits & 0xf0f0f0f0u); // 16 times too large
#else
    const int32_t at = e < 2 ? e : 2;
    const uint32_t turned = e == 3 ? bits >> 1 : bits;
#if WEFT_FORMAT == FORMAT_IQ1_M
    const uint32_t places = (turned & 1u << at) * (0x44444444u >> at) +
                            grid_point(low, e, grid_from(bits, 4 + 3 * e, 7));
#else
    const uint32_t point =
        WEFT_FORMAT == FORMAT_IQ2_XXS ? grid_point(low, e, grid_lane()) : grid_wide_point(wide, e);
    const uint32_t places = point ^ (turned & 0x11111111u << at);
#endif
    const uint32_t table = grid_kept(GRID_TABLE_0(at));
    return make_uint2(byte_permute(table, GRID_TABLE_1(at), places),
                      byte_permute(table, GRID_TABLE_1(at), upper_half(places)));
#endif
}

// The codes of pair p, as pair_codes() says.
DEVICE void grid_codes_of(const uint8_t *tile, int32_t p, int32_t lane, uint32_t a[2][4])
{
#if FORMAT_IS_IQ1
    const uint32_t low = *(const uint32_t *)(tile + p * PAIR_LOW + lane * 4);
    const uint32_t bits = *(const uint16_t *)(tile + 4 * PAIR_LOW + p * PAIR_HIGH + lane * 2);
#else
    const uint2 both = *(const uint2 *)(tile + p * PAIR_LOW + lane * 8);
    const uint32_t low = both.x, bits = grid_signs(both.y);
#endif
#if WEFT_FORMAT == FORMAT_IQ2_S // two bits of each
    const uint32_t tops = tile[4 * PAIR_LOW + lane * 4 + p];
    const uint32_t fours = times_plus(tops, 0x1001u, 0) & 0x000f000fu;
    const uint2 wide = grid_wide(low, times_plus(fours, 0x41u, 0) & 0x03030303u);
#elif WEFT_FORMAT == FORMAT_IQ2_XS
    const uint2 wide = grid_wide(low, grid_tops(both.y));
#else
    const uint2 wide = {};
#endif
#pragma unroll
    for (int32_t e = 0; e < 4; e++) {
        const uint2 numbers = grid_numbers(low, bits, wide, e);
        a[e % 2][e / 2] = numbers.x;
        a[e % 2][2 + e / 2] = numbers.y;
    }
}

#else

DEVICE void grid_codes_of(const uint8_t *tile, int32_t p, int32_t lane, uint32_t a[2][4])
{
    const uint2 low = *(const uint2 *)(tile + p * PAIR_LOW + lane * 8);
    const uint8_t *high = tile + 4 * PAIR_LOW;
    const uint32_t signs = grid_signs(*(const uint32_t *)(high + p * PAIR_HIGH + lane * 4));
#if WEFT_FORMAT == FORMAT_IQ3_S
    const uint32_t tops = high[4 * PAIR_HIGH + lane * 4 + p];
#else
    const uint32_t straight = grid_kept(0x3210u), minus_once = grid_kept(~0u);
#endif
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
#if WEFT_FORMAT == FORMAT_IQ3_S
        const uint2 wide = grid_wide(k ? low.y : low.x, grid_tops(tops >> 4 * k));
#endif
#pragma unroll
        for (int32_t e = 0; e < 4; e++) {
            uint32_t *to = &a[e % 2][2 * k + e / 2];
#if WEFT_FORMAT == FORMAT_IQ3_S
            // odd numbers: where all bits but the lowest are turned round a number is below zero
            const uint32_t point = grid_wide_point(wide, e);
            const uint32_t below = byte_permute(signs << (7 - 4 * k - e), 0, 0xba98u);
            *to = (point ^ below) | 0x01010101u;
#else
            // each byte from the point or from what is as far below zero
            const uint32_t point = grid_point(k ? low.y : low.x, e, grid_lane());
            const uint32_t turned = e == 3 ? signs >> 1 : signs;
            const int32_t left = e < 2 ? 2 - e : 0;
            const uint32_t places =
                k ? (uint32_t)dot_2_low(turned & 0x44440000u >> left, 256u << left, straight)
                  : (turned << left & 0x4444u) | straight;
            *to = byte_permute(point, minus_once * point + 0x01010100u, places);
#endif
        }
    }
}

#endif

// Scales: 2 n + 1 times d, bits of n in place.
DEVICE float grid_scale(float d, uint32_t odd)
{
    return fmaf(d, bits_float(0x4b000001u | odd), d * -8388608.0f);
}

// What d stands before 2 n + 1 with.
#if WEFT_FORMAT == FORMAT_IQ3_XXS
#define GRID_UNIT 0.25f
#elif WEFT_FORMAT == FORMAT_IQ3_S
#define GRID_UNIT 1.0f
#elif WEFT_FORMAT == FORMAT_IQ1_S // digits are 16 times too large
#define GRID_UNIT 0.0625f
#else
#define GRID_UNIT 0.125f
#endif

// d of rows r and r + 8, times GRID_UNIT.
DEVICE void grid_d(const uint8_t *tile, int32_t r, float d[2])
{
    const uint8_t *meta = tile + 4 * (PAIR_LOW + PAIR_HIGH);
#if WEFT_FORMAT == FORMAT_IQ1_M
    const uint4 w = *(const uint4 *)(meta + r * 16);
    const float2 both =
        f16x2_float2((w.x >> 6 & 0x03030303u) | (w.y >> 4 & 0x0c0c0c0cu) |
                     (w.z >> 2 & 0x30303030u) | (w.w & 0xc0c0c0c0u)); // two bits of every byte
#else
    const float2 both = f16x2_float2(*(const uint32_t *)(meta + TILE_META - 32 + r * 4));
#endif
    d[0] = both.x * GRID_UNIT, d[1] = both.y * GRID_UNIT;
}

#if WEFT_FORMAT == FORMAT_IQ1_S

// What stands beside the low bits of a lane's points of pair q.
DEVICE uint32_t grid_bits(const uint8_t *tile, int32_t q, int32_t lane)
{
    return *(const uint16_t *)(tile + 4 * PAIR_LOW + q * PAIR_HIGH + lane * 2);
}

// The sign of the shift of row r + 8 i and a lane's unit h, as that of a float.
DEVICE uint32_t grid_below(const uint8_t *tile, int32_t lane, int32_t i, int32_t h)
{
    return (grid_bits(tile, 2 * i + h, lane) & 0x8000u) << 16;
}

#endif

#if TILE_GROUP == 16

#define SIXTEENS_MASK (WEFT_FORMAT == FORMAT_IQ1_M ? 7u : 15u)

// A word a lane: scales of sixteens.
DEVICE const uint8_t *grid_sixteens(const uint8_t *tile)
{
    return tile + 4 * (PAIR_LOW + PAIR_HIGH) + (WEFT_FORMAT == FORMAT_IQ2_S ? 128 : 0);
}

// A lane's 2 n + 1 as bytes: of row r + 8 i and unit c + 4 h, sixteen g, byte 2 i + h of word g; iq1_m byte 2 h + g of word i.
DEVICE uint2 grid_odds(const uint8_t *tile, int32_t lane)
{
    const uint32_t word = *(const uint32_t *)(grid_sixteens(tile) + lane * 4);
    const uint32_t ones = 0x01010101u, mask = 2 * SIXTEENS_MASK * ones;
    return make_uint2((word << 1 & mask) | ones,
                      (shifted(word, WEFT_FORMAT == FORMAT_IQ1_M ? -2 : -3) & mask) | ones);
}

#endif

// Scales of rows r and r + 8 of the units whose bits lane (r, c) has, h = 0, 1: 2 c + h, of sixteens c + 4 h. What unit_scales() says.
DEVICE void grid_lane_scales(const uint8_t *tile, const float d[2], int32_t lane, int32_t h,
                             float scale[2][32 / TILE_GROUP], float add[2][32 / TILE_GROUP])
{
    (void)add;
#if TILE_GROUP == 16
    const uint32_t word = *(const uint32_t *)(grid_sixteens(tile) + lane * 4);
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t i = k / 2, g = k % 2;
        const int32_t at =
            WEFT_FORMAT == FORMAT_IQ1_M ? 8 * (2 * h + g) + 3 * i : 4 * (4 * i + 2 * h + g);
        scale[i][g] = grid_scale(d[i], shifted(word, 1 - at) & 2 * SIXTEENS_MASK);
    }
#else
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const int32_t q = 2 * i + h;
#if WEFT_FORMAT == FORMAT_IQ3_S
        const uint8_t *meta = tile + 4 * (PAIR_LOW + PAIR_HIGH) + 128;
        const uint32_t odd = (uint32_t) * (const uint16_t *)(meta + lane * 2) << 1 >> 4 * q & 30u;
#elif WEFT_FORMAT == FORMAT_IQ3_XXS
        const uint32_t odd =
            *(const uint32_t *)(tile + 4 * PAIR_LOW + q * PAIR_HIGH + lane * 4) >> 27;
#elif WEFT_FORMAT == FORMAT_IQ2_XXS
        const uint32_t odd = ((const uint2 *)(tile + q * PAIR_LOW + lane * 8))->y >> 27;
#else
        const uint32_t odd = grid_bits(tile, q, lane) >> 11 & 14u;
#endif
        scale[i][0] = grid_scale(d[i], odd);
#if TILE_MIN
        add[i][0] = bits_float(float_bits(scale[i][0] * 2) ^ grid_below(tile, lane, i, h));
#endif
    }
#endif
}

// unit_scales() of unit u.
DEVICE void grid_scales(const uint8_t *tile, const float d[2], int32_t u, int32_t r,
                        float scale[2][32 / TILE_GROUP], float add[2][32 / TILE_GROUP])
{
    if (TILE_GROUP == 16)
        grid_lane_scales(tile, d, 4 * r + u % 4, u / 4, scale, add);
    else
        grid_lane_scales(tile, d, 4 * r + u / 2, u % 2, scale, add);
}

// Scales of the two units whose bits a lane (r, c) has, 2 c and 2 c + 1 (of sixteens: c and c + 4), for lanes that need all units'.
struct grid_own {
    float scale[2][2][32 / TILE_GROUP], add[2][2][32 / TILE_GROUP];
};

DEVICE void grid_own_make(struct grid_own *own, const uint8_t *tile, const float d[2], int32_t lane)
{
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
        grid_lane_scales(tile, d, lane, h, own->scale[h], own->add[h]);
}

// unit_scales() of unit u, from the lane that has made them. By whole warps.
DEVICE void grid_given(const struct grid_own *own, int32_t u, int32_t lane,
                       float scale[2][32 / TILE_GROUP], float add[2][32 / TILE_GROUP])
{
    const int32_t from = (lane & 28) + (TILE_GROUP == 16 ? u % 4 : u / 2);
    const int32_t h = TILE_GROUP == 16 ? u / 4 : u % 2;
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
#pragma unroll
        for (int32_t g = 0; g < 32 / TILE_GROUP; g++) {
            scale[i][g] = __shfl_sync(0xffffffffu, own->scale[h][i][g], from);
            if (TILE_MIN)
                add[i][g] = __shfl_sync(0xffffffffu, own->add[h][i][g], from);
        }
}

#endif
