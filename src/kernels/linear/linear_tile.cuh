// SPDX-License-Identifier: MIT
// A packed tile in shared memory as the numbers that a lane multiplies: codes of a pair as A fragments,
// scales of its two rows. linear_device.h draws the layout.
#ifndef WEFT_KERNELS_LINEAR_TILE_CUH
#define WEFT_KERNELS_LINEAR_TILE_CUH

#include "src/kernels/cuda/types.cuh"
#include "src/kernels/linear/linear_format.cuh"

DEVICE uint32_t shifted(uint32_t word, int32_t left)
{
    return left >= 0 ? word << left : word >> -left;
}

// The number again, from the lane itself: no compiler knows any more how it is made, so it stays in a register instead of being made
// wherever it is used (computed_here() is gone when registers are given out).
DEVICE uint32_t kept_here(uint32_t x)
{
    return __shfl_sync(0xffffffffu, x, (int32_t)(threadIdx.x % WARP));
}

#if TILE_GRID
#include "src/kernels/linear/linear_grid.cuh"
#endif

enum {
    SIXTEENS = 32 / TILE_GROUP, // scales per unit and row
    // A lane's columns of word j: LANE_STEP c + WORD_STEP (j / 2) + 0..3 of the unit.
    LANE_STEP = TILE_EIGHTS ? 8 : 4,
    WORD_STEP = TILE_EIGHTS ? 4 : 16,
};

// All columns that a lane has of a unit are of one sixteen, c / 2.
#define TILE_HALVES (TILE_EIGHTS && TILE_GROUP == 16)

// The scale of word j of a lane (r, c).
DEVICE float word_scale(const float of_row[SIXTEENS], int32_t c, int32_t j)
{
    if (TILE_HALVES)
        return c < 2 ? of_row[0] : of_row[SIXTEENS - 1];
    return of_row[j / 2 % SIXTEENS];
}

// Codes that stay where they lie are too large by this factor in the second unit of a pair, and, where
// pair_codes() leaves others in place, too, by CODE_FACTOR in unit h and row r + 8 i.
#define TILE_IN_PLACE  (TILE_BITS == 4 && !TILE_TABLE)
#define UNIT_FACTOR(h) (TILE_IN_PLACE && (h) ? 16 : 1)
#if TILE_BITS == 2
#define CODE_FACTOR(h, i) ((i) ? 4 : 1)
#elif TILE_BITS == 3
#define CODE_FACTOR(h, i) ((h) && (i) ? 1 : 4)
#else
#define CODE_FACTOR(h, i) UNIT_FACTOR(h)
#endif

// Tables of 16 have eight numbers below zero: magnitudes of both halves. Codes 0..7 mean the first half.
#if WEFT_FORMAT == FORMAT_IQ4_NL || WEFT_FORMAT == FORMAT_IQ4_XS
#define TABLE_FIRST_NEGATIVE 1
#define TABLE_0              0x4153687fu // 127 104 83 65
#define TABLE_1              0x0a162331u // 49 35 22 10
#define TABLE_2              0x26190d01u // 1 13 25 38
#define TABLE_3              0x71594535u // 53 69 89 113
#else                                    // e2m1, doubled: 0 1 2 3 4 6 8 12 and the same below zero
#define TABLE_FIRST_NEGATIVE 0
#define TABLE_0              0x03020100u
#define TABLE_1              0x0c080604u
#define TABLE_2              TABLE_0
#define TABLE_3              TABLE_1
#endif

#if TILE_BITS < 4
// The codes at bits `place` and up of a word's bytes, at the bottom or left where a shift to a multiple of 4 (3 bits: of 3)
// puts them.
DEVICE uint32_t few_bits(uint32_t word, int32_t place, bool in_place)
{
#if TILE_BITS == 2
    const int32_t left = in_place ? place % 4 : 0;
    return word >> (place - left) & 0x03030303u << left;
#else
    const int32_t left = in_place ? 2 : 0;
    return word >> (place - left) & 0x07070707u << left;
#endif
}
#endif

// The codes of pair p for unit h and word j, times UNIT_FACTOR(h), or in place CODE_FACTOR(h, j % 2). With a table the bytes are magnitudes, in a those above zero
// and in `below` the others, each 0 where the other has a number: byte_permute gives 0 for a place whose
// top bit is set, as no magnitude has a top bit.
DEVICE void pair_codes(const uint8_t *tile, int32_t pairs, int32_t p, int32_t lane,
                       uint32_t a[2][4], uint32_t below[2][4], bool in_place = false)
{
    (void)below, (void)in_place;
#if TILE_GRID
    (void)pairs;
    grid_codes_of(tile, p, lane, a);
#else
    const uint8_t *low = tile;
#if PAIR_HIGH
    const uint8_t *high = tile + pairs * PAIR_LOW;
#endif
#if TILE_BITS == 8
    for (int32_t h = 0; h < 2; h++) {
        uint4 w = *(const uint4 *)(low + (2 * p + h) * 512 + lane * 16);
        a[h][0] = w.x, a[h][1] = w.y, a[h][2] = w.z, a[h][3] = w.w;
    }
#elif TILE_BITS >= 4
    uint4 quad = *(const uint4 *)(low + p * PAIR_LOW + lane * 16);
    uint32_t w[4] = {quad.x, quad.y, quad.z, quad.w};
#if TILE_BITS == 5
    uint32_t top = *(const uint32_t *)(high + p * PAIR_HIGH + lane * 4);
#elif TILE_BITS == 6
    uint2 tops = *(const uint2 *)(high + p * PAIR_HIGH + lane * 8);
#endif
#pragma unroll
    for (int32_t j = 0; j < 4; j++) {
#if TILE_TABLE
        uint32_t other = w[j] ^ 0x88888888u;
        uint32_t(*first)[4] = TABLE_FIRST_NEGATIVE ? below : a,
        (*second)[4] = TABLE_FIRST_NEGATIVE ? a : below;
        first[0][j] = byte_permute(TABLE_0, TABLE_1, w[j]);
        first[1][j] = byte_permute(TABLE_0, TABLE_1, w[j] >> 16);
        second[0][j] = byte_permute(TABLE_2, TABLE_3, other);
        second[1][j] = byte_permute(TABLE_2, TABLE_3, other >> 16);
#elif TILE_BITS == 4
        a[0][j] = w[j] & 0x0f0f0f0fu;
        a[1][j] = w[j] & 0xf0f0f0f0u;
#elif TILE_BITS == 5
        a[0][j] = (w[j] & 0x0f0f0f0fu) | (shifted(top, 4 - 2 * j) & 0x10101010u);
        a[1][j] = (w[j] >> 4 & 0x0f0f0f0fu) | (shifted(top, 3 - 2 * j) & 0x10101010u);
#else
        a[0][j] = (w[j] & 0x0f0f0f0fu) | (shifted(tops.x, 4 - 2 * j) & 0x30303030u);
        a[1][j] = (w[j] >> 4 & 0x0f0f0f0fu) | (shifted(tops.y, 4 - 2 * j) & 0x30303030u);
#endif
    }
#else
    uint2 w = *(const uint2 *)(low + p * PAIR_LOW + lane * 8);
#if TILE_BITS == 3
    uint32_t rest = *(const uint32_t *)(high + p * PAIR_HIGH + lane * 4);
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        a[0][i] = few_bits(w.x, 2 + 3 * i, in_place);
        a[0][2 + i] = few_bits(w.y, 2 + 3 * i, in_place);
        a[1][2 * i] = few_bits(rest, 2 + 3 * i, in_place);
    }
    a[1][1] = (w.x & 0x03030303u) | (rest << 2 & 0x04040404u);
    a[1][3] = (w.y & 0x03030303u) | (rest << 1 & 0x04040404u);
#else
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        a[k / 2][k % 2] = few_bits(w.x, 2 * k, in_place);
        a[k / 2][2 + k % 2] = few_bits(w.y, 2 * k, in_place);
    }
#endif
#endif
#endif
}

#if TILE_TABLE

// Signed numbers: where a place's top bit is set byte_permute gives -1 from a table below zero, 0 from the other. So two products
// one after the other add up to the number, or, with a zero among those of the half below, to 1 less.
#if TABLE_FIRST_NEGATIVE
#define SIGNED_TABLE_0 0xbfad9881u // -127 -104 -83 -65
#define SIGNED_TABLE_1 0xf6eaddcfu // -49 -35 -22 -10
#define SIGNED_TABLE_2 0x271a0e02u // one more than 1 13 25 38
#define SIGNED_TABLE_3 0x725a4636u // 53 69 89 113
#else
#define SIGNED_TABLE_0 TABLE_0
#define SIGNED_TABLE_1 TABLE_1
#define SIGNED_TABLE_2 0xfcfdfeffu // one less than 0 -1 -2 -3
#define SIGNED_TABLE_3 0xf3f7f9fbu // -4 -6 -8 -12
#endif

// What has to be added to a sum of products of both parts, times the sum of x.
#define SIGNED_TABLE_OFFSET (TABLE_FIRST_NEGATIVE ? 0 : 1)

// What a permute takes from a register beside the other half, which stands in the instruction.
struct signed_tables {
    uint32_t first, second;
};

// The codes of pair p for unit h and word j in two parts.
DEVICE void signed_codes(struct signed_tables tables, const uint8_t *tile, int32_t p, int32_t lane,
                         uint32_t first[2][4], uint32_t second[2][4])
{
    const uint4 quad = *(const uint4 *)(tile + p * PAIR_LOW + lane * 16);
    const uint32_t w[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int32_t j = 0; j < 4; j++) {
        const uint32_t other = w[j] ^ 0x88888888u;
#pragma unroll
        for (int32_t h = 0; h < 2; h++) {
            first[h][j] = byte_permute(tables.first, SIGNED_TABLE_1, w[j] >> 16 * h);
            second[h][j] = byte_permute(tables.second, SIGNED_TABLE_3, other >> 16 * h);
        }
    }
}

#endif

// scale * (byte i of a word - offset), rounded once. The byte becomes the float 2^23 + byte; without an
// offset the 2^23 leave in the fused product.
DEVICE float times_byte(float scale, uint32_t word, int32_t i, float offset)
{
    float above = bits_float(byte_permute(word, 0x4b000000u, 0x7440 | i));
    return offset == 0 ? fmaf(scale, above, scale * -8388608.0f)
                       : scale * (above - (8388608.0f + offset));
}

// What a lane knows of a tile's scales before its first pair: of row r [0] and row r + 8 [1].
struct tile_scales {
#if TILE_GRID || FORMAT_IS_TERNARY
    const uint8_t *tile;
    float d[2];
#elif WEFT_FORMAT == FORMAT_Q4_K || WEFT_FORMAT == FORMAT_Q5_K
    float d[2], dmin[2];
    uint32_t sc[2][2], m[2][2];
#elif WEFT_FORMAT == FORMAT_Q6_K || WEFT_FORMAT == FORMAT_Q3_K
    float d[2];
    uint32_t sc[2][4];
#elif WEFT_FORMAT == FORMAT_Q2_K
    float d[2], dmin[2];
    uint32_t sc[2][4];
#elif WEFT_FORMAT == FORMAT_IQ4_XS
    float d[2];
    uint32_t sc[2][2]; // of even and of odd units
#else
    const uint8_t *at;
#endif
};

DEVICE void tile_scales_load(struct tile_scales *s, const uint8_t *tile, int32_t pairs, int32_t r)
{
    const uint8_t *meta = tile + pairs * (PAIR_LOW + PAIR_HIGH);
#if TILE_GRID
    s->tile = tile;
    grid_d(tile, r, s->d);
    (void)meta;
#elif FORMAT_IS_TERNARY
    const float2 d = f16x2_float2(*(const uint32_t *)(meta + r * 4));
    s->d[0] = d.x, s->d[1] = d.y;
#elif !TILE_SUPER
    s->at = meta;
    (void)r;
#else
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        int32_t row = r + 8 * i;
#if WEFT_FORMAT == FORMAT_Q4_K || WEFT_FORMAT == FORMAT_Q5_K
        uint4 w = *(const uint4 *)(meta + row * 16);
        float2 d = f16x2_float2(w.x);
        s->d[i] = d.x, s->dmin[i] = -d.y;
        s->sc[i][0] = w.y & 0x3f3f3f3fu;
        s->m[i][0] = w.z & 0x3f3f3f3fu;
        s->sc[i][1] = (w.w & 0x0f0f0f0fu) | (w.y >> 2 & 0x30303030u);
        s->m[i][1] = (w.w >> 4 & 0x0f0f0f0fu) | (w.z >> 2 & 0x30303030u);
#elif WEFT_FORMAT == FORMAT_Q6_K
        uint4 w = *(const uint4 *)(meta + row * 16);
        s->d[i] = f16_float(*(const uint16_t *)(meta + 256 + row * 2));
        s->sc[i][0] = w.x, s->sc[i][1] = w.y, s->sc[i][2] = w.z, s->sc[i][3] = w.w;
#elif WEFT_FORMAT == FORMAT_Q3_K
        const uint32_t *w = (const uint32_t *)(meta + row * 12);
        uint32_t a = w[0], b = w[1], top = w[2];
        s->d[i] = f16_float(*(const uint16_t *)(meta + 192 + row * 2));
        s->sc[i][0] = (a & 0x0f0f0f0fu) | (top << 4 & 0x30303030u);
        s->sc[i][1] = (b & 0x0f0f0f0fu) | (top << 2 & 0x30303030u);
        s->sc[i][2] = (a >> 4 & 0x0f0f0f0fu) | (top & 0x30303030u);
        s->sc[i][3] = (b >> 4 & 0x0f0f0f0fu) | (top >> 2 & 0x30303030u);
#elif WEFT_FORMAT == FORMAT_Q2_K
        uint4 w = *(const uint4 *)(meta + row * 16);
        float2 d = f16x2_float2(*(const uint32_t *)(meta + 256 + row * 4));
        s->d[i] = d.x, s->dmin[i] = -d.y;
        s->sc[i][0] = w.x, s->sc[i][1] = w.y, s->sc[i][2] = w.z, s->sc[i][3] = w.w;
#else // iq4_xs
        uint2 w = *(const uint2 *)(meta + row * 8);
        s->d[i] = f16_float(w.x & 0xffffu);
        // four bits, and above them two, which are places in a table of bytes
#pragma unroll
        for (int32_t h = 0; h < 2; h++)
            s->sc[i][h] = (w.y >> 4 * h & 0x0f0f0f0fu) |
                          byte_permute(0x30201000u, 0, w.x >> (16 + 2 * h) & 0x3333u);
#endif
    }
#endif
}

// Scales of sixteens that are small integers times a number of the row's: products with them stay integers.
#define TILE_FINE (WEFT_FORMAT == FORMAT_Q2_K || WEFT_FORMAT == FORMAT_Q3_K)
#if TILE_FINE

// Of a row, for sixteens 4 c .. 4 c + 3: bytes with a sign, and what they are multiplied by.
struct fine_scales {
    uint32_t scale, min;
    float by, min_by;
};

DEVICE struct fine_scales fine_scales_load(const uint8_t *tile, int32_t row, int32_t c)
{
    const uint8_t *meta = tile + 4 * (PAIR_LOW + PAIR_HIGH);
    struct fine_scales s = {};
#if WEFT_FORMAT == FORMAT_Q2_K
    uint32_t both = *(const uint32_t *)(meta + row * 16 + c * 4);
    float2 d = f16x2_float2(*(const uint32_t *)(meta + 256 + row * 4));
    s.scale = both & 0x0f0f0f0fu, s.min = both >> 4 & 0x0f0f0f0fu;
    s.by = d.x, s.min_by = -d.y;
#else
    const uint32_t *words = (const uint32_t *)(meta + row * 12);
    uint32_t low = words[c & 1] >> (c & 2) * 2 & 0x0f0f0f0fu;
    uint32_t top = words[2] >> 2 * c & 0x03030303u;
    s.scale = ((low | 0x60606060u) + top * 16) ^ 0x80808080u; // less 32
    s.by = f16_float(*(const uint16_t *)(meta + 192 + row * 2));
#endif
    return s;
}

#endif

#if WEFT_FORMAT == FORMAT_MXFP4
DEVICE float e8m0_half(uint32_t e) // 2^(e - 128)
{
    return bits_float(e >= 2 ? (e - 1) << 23 : 0x00200000u << e);
}
#endif

#if WEFT_FORMAT == FORMAT_NVFP4
// Half of an unsigned e4m3 of seven bits (linear_device.h); what is subnormal is so there as well.
DEVICE float ue4m3_half(uint32_t e)
{
    return bits_float(e << 20) * 0x1p119f;
}
#endif

#if FORMAT_IS_MLX
DEVICE float2 mlx_pair(uint32_t word)
{
    return WEFT_SCALE_DTYPE == 2 ? f16x2_float2(word) : bf16x2_float2(word);
}
#endif

#if FORMAT_IS_F16_PER_32 || FORMAT_IS_F16_PAIR_PER_32
// The scales of unit h of pair p of rows r and r + 8, two f16.
DEVICE const uint8_t *unit_halves(const struct tile_scales *s, int32_t p, int32_t h, int32_t r)
{
    return s->at + p * 64 + r * 8 + h * 4;
}
#endif

#if TILE_SUPER && !TILE_GRID && !FORMAT_IS_TERNARY
// unit_scales() where a block of 256 has bytes of scales.
DEVICE void super_scales(const struct tile_scales *s, int32_t p, int32_t h, int32_t u,
                         float scale[2][SIXTEENS], float add[2][SIXTEENS])
{
    (void)p, (void)h, (void)u, (void)add;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
#if WEFT_FORMAT == FORMAT_Q4_K || WEFT_FORMAT == FORMAT_Q5_K
        scale[i][0] = times_byte(s->d[i], u < 4 ? s->sc[i][0] : s->sc[i][1], u % 4, 0);
        add[i][0] = times_byte(s->dmin[i], u < 4 ? s->m[i][0] : s->m[i][1], u % 4, 0);
#elif WEFT_FORMAT == FORMAT_IQ4_XS
        scale[i][0] = times_byte(s->d[i], s->sc[i][h], p, 32);
#else
#pragma unroll
        for (int32_t g = 0; g < 2; g++) {
            uint32_t word = p < 2   ? p < 1 ? s->sc[i][0] : s->sc[i][1]
                              : p < 3 ? s->sc[i][2]
                                    : s->sc[i][3];
            int32_t byte = 2 * h + g;
#if WEFT_FORMAT == FORMAT_Q6_K
            scale[i][g] = times_byte(s->d[i], word, byte, 128);
#elif WEFT_FORMAT == FORMAT_Q3_K
            scale[i][g] = times_byte(s->d[i], word, byte, 32);
#else
            scale[i][g] = times_byte(s->d[i], word & 0x0f0f0f0fu, byte, 0);
            add[i][g] = times_byte(s->dmin[i], word >> 4 & 0x0f0f0f0fu, byte, 0);
#endif
        }
#endif
    }
}
#endif

// Of unit h of pair p: the scale of row r [0] and r + 8 [1] per sixteen (or for all 32), and what is added.
DEVICE void unit_scales(const struct tile_scales *s, int32_t pairs, int32_t p, int32_t h, int32_t r,
                        float scale[2][SIXTEENS], float add[2][SIXTEENS])
{
    const int32_t u = 2 * p + h;
    (void)u, (void)pairs, (void)r, (void)add;
#if TILE_GRID
    grid_scales(s->tile, s->d, u, r, scale, add);
#elif FORMAT_IS_TERNARY
    scale[0][0] = s->d[0], scale[1][0] = s->d[1];
#elif FORMAT_IS_F16_PER_32 || FORMAT_IS_F16_PAIR_PER_32
    float2 d = f16x2_float2(*(const uint32_t *)unit_halves(s, p, h, r));
    scale[0][0] = d.x, scale[1][0] = d.y;
#if TILE_MIN
    float2 m = f16x2_float2(*(const uint32_t *)(s->at + (pairs + p) * 64 + r * 8 + h * 4));
    add[0][0] = m.x, add[1][0] = m.y;
#endif
#elif WEFT_FORMAT == FORMAT_MXFP4
    uint32_t e = *(const uint16_t *)(s->at + p * 32 + r * 4 + h * 2);
    scale[0][0] = e8m0_half(e & 255u), scale[1][0] = e8m0_half(e >> 8);
#elif WEFT_FORMAT == FORMAT_NVFP4
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        uint32_t e = *(const uint16_t *)(s->at + p * 64 + r * 8 + i * 4 + h * 2);
        scale[i][0] = ue4m3_half(e & 0x7fu), scale[i][1] = ue4m3_half(e >> 8);
    }
#elif FORMAT_IS_MLX
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *at = MLX_GROUP == 32   ? s->at + p * 128 + r * 16 + h * 8
                            : MLX_GROUP == 64 ? s->at + p * 64 + r * 8
                                              : s->at + p / 2 * 64 + r * 8;
        float2 pair = mlx_pair(*(const uint32_t *)(at + 4 * i));
        scale[i][0] = pair.x, add[i][0] = pair.y;
    }
#else
    super_scales(s, p, h, u, scale, add);
#endif
}

#endif
