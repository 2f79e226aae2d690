// SPDX-License-Identifier: MIT
// One row of X (linear_few.cu), rounded: a row leaves 7 of the 8 columns of a product free. Column u is the x of unit
// u = 0..7 of the tile in every product, and of a unit's products with all columns the lanes keep those with its own: lane (r, c)
// those of units 2c and 2c + 1, pair c. Scales are then a matter of two units a lane, not eight, nothing makes zeros of B,
// and no product waits for another pair's.
#ifndef WEFT_KERNELS_LINEAR_FEW_ONE_CUH
#define WEFT_KERNELS_LINEAR_FEW_ONE_CUH

#include "src/kernels/linear/linear_tile.cuh"

#define MAGIC_BITS 0x4b400000
#define MAGIC      12582912.0f

// Scale and sums of a unit of one row of X.
struct x_meta {
    float scale;
    uint32_t sums;
};

DEVICE struct x_meta x_meta_of(uint4 pair, int32_t h)
{
    struct x_meta meta = {bits_float(h ? pair.z : pair.x), h ? pair.w : pair.y};
    return meta;
}

// scale of x times the sum of its sixteen g (or of the unit), what the format adds is multiplied by
DEVICE float x_sum(struct x_meta meta, int32_t g)
{
    const uint32_t ones = SIXTEENS == 1 ? 0x0101u : g ? 0x0100u : 0x0001u;
    return (__int_as_float(dot_2_low(meta.sums, ones, MAGIC_BITS)) - MAGIC) * meta.scale;
}

// Four-bit codes: a product of -1 - the low nibble in both units, then the bytes as they lie in the second alone: 16 times
// its codes, less 1. ONE_FACTOR: what the dots of unit h and row r + 8 i are too large by; ONE_OFFSET: what is to be added to
// the codes as they were multiplied, as often.
#if TILE_IN_PLACE
#define ONE_FACTOR(h, i) ((h) ? 16 : -1)
#define ONE_OFFSET(h, i) (ONE_FACTOR(h, i) * TILE_OFFSET + 1)
#elif TILE_TABLE
#define ONE_FACTOR(h, i) 1
#define ONE_OFFSET(h, i) SIGNED_TABLE_OFFSET
#else
#define ONE_FACTOR(h, i) CODE_FACTOR(h, i)
#define ONE_OFFSET(h, i) (CODE_FACTOR(h, i) * TILE_OFFSET)
#endif

// So many pairs have their codes and products in registers at once: all where a thread has 128 registers, or 64 and little to
// keep besides (four spill at 64 where results leave rounded, a warp has several tiles of a row block, or codes are points of a lattice, and at 80
// with a gate; one there where lanes have halves).
#define ONE_ROOM (WEFT_WARPS * WEFT_BLOCKS <= 16)
#if __CUDA_ARCH__ >= 1000 // whose compiler has no room for minima, too
#define ONE_SIMPLE (!WEFT_ROUND && !WEFT_GATE && !TILE_TABLE && TILE_BITS % 4 == 0 && !TILE_MIN)
#else
#define ONE_SIMPLE (!WEFT_ROUND && !WEFT_GATE && !TILE_TABLE && TILE_BITS % 4 == 0)
#endif
enum {
    PAIRS_AT_ONCE = ONE_ROOM || (ONE_SIMPLE && ONE_EACH && !TILE_GRID)        ? 4
                    : WEFT_WARPS * WEFT_BLOCKS > 24 && TILE_TABLE &&WEFT_GATE ? 1
                    : TILE_HALVES && (WEFT_GATE || WEFT_ROUND)                ? 1
                                                                              : 2
};

// What sixteen g (or the unit) of unit h starts from in row r + 8 i.
DEVICE int32_t one_start(struct x_meta meta, int32_t offset, int32_t g)
{
    const uint32_t by = (uint32_t)offset & 255u;
    const uint32_t both = SIXTEENS == 1 ? by | by << 8 : g ? by << 8 : by;
    const int32_t from = TILE_FINE ? 0 : MAGIC_BITS;
    return offset ? dot_2_low(meta.sums, both, from) : from;
}

#if !TILE_IN_PLACE

// Codes of a pair by unit; of tables in two parts.
struct one_codes {
    uint32_t first[2][4], second[2][4];
};

DEVICE void one_codes_load(struct one_codes *codes, const uint8_t *slot, int32_t pairs, int32_t p,
                           int32_t lane)
{
#if TILE_TABLE
    (void)pairs;
    const struct signed_tables tables = {SIGNED_TABLE_0, SIGNED_TABLE_2};
    signed_codes(tables, slot, p, lane, codes->first, codes->second);
#else
    pair_codes(slot, pairs, p, lane, codes->first, codes->second, true);
#endif
}

// The products of unit h, of its sixteen g where scales are so fine.
DEVICE void one_products(int32_t d[4], const struct one_codes *codes, int32_t h, int32_t g, uint2 b)
{
#pragma unroll
    for (int32_t part = 0; part < 1 + TILE_TABLE; part++) {
        const uint32_t *a = part ? codes->second[h] : codes->first[h];
        if (TILE_HALVES)
            mma_s8_k32(d, a, b.x, b.y);
        else if (SIXTEENS == 2 && TILE_TABLE)
            mma_s8_k16(d, a[2 * g], a[2 * g + 1], g ? b.y : b.x);
        else if (SIXTEENS == 2)
            mma_u8_k16(d, a[2 * g], a[2 * g + 1], g ? b.y : b.x);
        else if (TILE_SIGNED || TILE_TABLE)
            mma_s8_k32(d, a, b.x, b.y);
        else
            mma_u8_k32(d, a, b.x, b.y);
    }
}

#endif

#if TILE_GROUP == 16 && !TILE_HALVES

// Two scales a unit: twice as many products as registers hold apart from one another. So all add up in one chain of each sixteen, in
// which a unit has a column of B to itself, and the columns of the others are zero.
DEVICE void pair_add(const uint8_t *slot, int32_t pairs, int32_t p, int32_t lane, uint2 b,
                     int32_t d[2][4])
{
    struct one_codes codes;
    one_codes_load(&codes, slot, pairs, p, lane);
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const bool own = lane / 4 == 2 * p + h;
        const uint2 x = make_uint2(own ? b.x : 0, own ? b.y : 0);
#pragma unroll
        for (int32_t g = 0; g < 2; g++)
            one_products(d[g], &codes, h, g, x);
    }
}

#else

// Products of pair p with all columns, of unit h in d[h]: of unit 0 only the even columns count, of unit 1 the odd ones.
DEVICE void pair_products(const uint8_t *slot, int32_t pairs, int32_t p, int32_t lane,
                          const int32_t start[4], uint2 b, int32_t d[2][4])
{
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
        d[0][k] = d[1][k] = start[k];
#if TILE_IN_PLACE
    const uint4 quad = *(const uint4 *)(slot + p * PAIR_LOW + lane * 16);
    const uint32_t w[4] = {quad.x, quad.y, quad.z, quad.w};
    uint32_t low[4];
#pragma unroll
    for (int32_t j = 0; j < 4; j++)
        low[j] = ~(w[j] & 0x0f0f0f0fu);
    mma_s8_k32(d[0], low, b.x, b.y);
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
        d[1][k] = d[0][k];
    mma_u8_k32(d[1], w, b.x, b.y);
#else
    struct one_codes codes;
    one_codes_load(&codes, slot, pairs, p, lane);
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
        one_products(d[h], &codes, h, 0, b);
#endif
}

#endif

#if TILE_FINE

// The tile's products with their scales: dots of two sixteens, which 16 bits hold, meet their two scales in one
// instruction.
DEVICE void tile_scale(const uint8_t *slot, int32_t pairs, int32_t lane,
                       const struct x_meta meta[2], const int32_t dots[2][4], float acc[2])
{
    const int32_t r = lane / 4, c = lane % 4;
    (void)pairs;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const struct fine_scales scales = fine_scales_load(slot, r + 8 * i, c);
        float sum = 0, least = 0;
#pragma unroll
        for (int32_t h = 0; h < 2; h++) {
            uint32_t both =
                byte_permute((uint32_t)dots[0][2 * i + h], (uint32_t)dots[1][2 * i + h], 0x5410);
            int32_t dot = h ? dot_2_high(both, scales.scale, MAGIC_BITS)
                            : dot_2_low(both, scales.scale, MAGIC_BITS);
            sum = fmaf(__int_as_float(dot) - MAGIC,
                       meta[h].scale * (1.0f / (float)ONE_FACTOR(h, i)), sum);
#if TILE_MIN
            int32_t add = h ? dot_2_high(meta[h].sums, scales.min, MAGIC_BITS)
                            : dot_2_low(meta[h].sums, scales.min, MAGIC_BITS);
            least = fmaf(__int_as_float(add) - MAGIC, meta[h].scale, least);
#endif
        }
        acc[i] = fmaf(scales.by, sum, acc[i]);
        if (TILE_MIN)
            acc[i] = fmaf(scales.min_by, least, acc[i]);
    }
}

#elif TILE_HALVES

// The two dots of a row and unit times 2 n + 1 of their sixteens, together: a whole number.
DEVICE int32_t sixteens_together(const int32_t dots[2], uint2 odds, int32_t h, int32_t i)
{
#if WEFT_FORMAT == FORMAT_IQ1_M // dots of 16 bits
    const uint32_t both = byte_permute((uint32_t)dots[0], (uint32_t)dots[1], 0x5410);
    const uint32_t by = i ? odds.y : odds.x;
    return h ? dot_2_high(both, by, 0) : dot_2_low(both, by, 0);
#else
    const uint32_t one = 1u << 8 * (2 * i + h);
    return dots[0] * (int32_t)dot_4_unsigned(odds.x, one, 0) +
           dots[1] * (int32_t)dot_4_unsigned(odds.y, one, 0);
#endif
}

// Scales are 2 n + 1 times a number of the row's, so products of a unit stay whole until they meet the scale of X: less than 2^24.
DEVICE void tile_scale(const uint8_t *slot, int32_t pairs, int32_t lane,
                       const struct x_meta meta[2], const int32_t dots[SIXTEENS][4], float acc[2])
{
    float d[2];
    const uint2 odds = grid_odds(slot, lane);
    (void)pairs;
    grid_d(slot, lane / 4, d);
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        float sum = 0;
#pragma unroll
        for (int32_t h = 0; h < 2; h++)
            sum = fmaf((float)sixteens_together(dots[h] + 2 * i, odds, h, i), meta[h].scale, sum);
        acc[i] = fmaf(d[i], sum, acc[i]);
    }
}

#else

DEVICE void tile_scale(const uint8_t *slot, int32_t pairs, int32_t lane,
                       const struct x_meta meta[2], const int32_t d[SIXTEENS][4], float acc[2])
{
    const int32_t r = lane / 4, c = lane % 4;
    struct tile_scales scales;
    tile_scales_load(&scales, slot, pairs, r);
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        // lane (r, c) has kept the products of units 2 c + h, with halves c + 4 h
        const int32_t pair = TILE_HALVES ? 2 * h + c / 2 : c, of_pair = TILE_HALVES ? c % 2 : h;
        float scale[2][SIXTEENS], add[2][SIXTEENS];
#if TILE_GRID
        (void)pair, (void)of_pair;
        grid_lane_scales(slot, scales.d, lane, h, scale, add);
#else
        unit_scales(&scales, pairs, pair, of_pair, r, scale, add);
#endif
#pragma unroll
        for (int32_t g = 0; g < SIXTEENS; g++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++) {
                const float xs = meta[h].scale * (1.0f / (float)ONE_FACTOR(h, i));
                const int32_t product = TILE_HALVES ? d[h][2 * i + g] : d[g][2 * i + h];
                float dot = __int_as_float(product) - MAGIC;
#if TILE_GRID && TILE_MIN // a shift of 2 in all digits, which are 16 times too large
                const float shift = 2 * x_sum(meta[h], g);
                dot = fmaf(dot, xs, bits_float(float_bits(shift) ^ grid_below(slot, lane, i, h)));
                acc[i] = fmaf(dot, scale[i][g], acc[i]);
#else
                acc[i] = fmaf(dot * xs, scale[i][g], acc[i]);
#endif
#if TILE_MIN && !TILE_GRID
                acc[i] = fmaf(x_sum(meta[h], g), add[i][g], acc[i]);
#endif
            }
    }
}

#endif

// B's column of a unit, or zeros.
DEVICE uint2 one_column(const uint8_t *x, int32_t unit, int32_t c, bool there)
{
    if (!TILE_EIGHTS)
        return *(const uint2 *)(x + unit / 2 * 64 + c * 16 + unit % 2 * 8);
    const uint8_t *at = x + unit / 2 * 64 + c % 2 * 32 + unit % 2 * 8 + c / 2 * 4;
    const uint32_t first = *(const uint32_t *)at, second = *(const uint32_t *)(at + 16);
    return make_uint2(there ? first : 0, there ? second : 0);
}

// What a tile is multiplied by: a lane's columns of B, and the scales and sums of its two units.
struct one_x {
    uint2 b[1 + TILE_HALVES];
    struct x_meta meta[2];
    int32_t start[SIXTEENS][4]; // of the sums of products
};

// Tile `tile` of a row of X: its codes, its scales and sums.
DEVICE struct one_x one_x_of(const uint8_t *row, const uint8_t *metas, int32_t tile, int32_t lane)
{
    const int32_t r = lane / 4, c = lane % 4;
    struct one_x x;
#if TILE_HALVES
    x.b[0] = one_column(row + tile * 256, r / 2, c, c / 2 == r % 2);
    x.b[1] = one_column(row + tile * 256, 4 + r / 2, c, c / 2 == r % 2);
    const uint2 *own = (const uint2 *)metas + tile * 8 + c;
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
        x.meta[h].scale = bits_float(own[4 * h].x), x.meta[h].sums = own[4 * h].y;
#else
    x.b[0] = one_column(row + tile * 256, r, c, true);
    const uint4 own = ((const uint4 *)metas)[tile * 4 + c];
    x.meta[0] = x_meta_of(own, 0), x.meta[1] = x_meta_of(own, 1);
#endif
#pragma unroll
    for (int32_t g = 0; g < SIXTEENS; g++)
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            x.start[g][k] = one_start(x.meta[k % 2], ONE_OFFSET(k % 2, k / 2), g);
    return x;
}

#if TILE_HALVES

// Products of a slot's tiles. Column u of B is the x of sixteen u % 2 of unit u / 2, or 4 + u / 2, in products of that unit, and zeros in
// others: all add up where lane (r, c) has units c and 4 + c, and what makes zeros serves all tiles of the slot.
DEVICE void slot_products(const struct one_x *x, const uint8_t *slot, int32_t lane,
                          int32_t kept[SLOT_BLOCKS][SIXTEENS][4])
{
#pragma unroll
    for (int32_t k = 0; k < SLOT_BLOCKS * SIXTEENS * 4; k++)
        kept[k / 8][k / 4 % 2][k % 4] = 0;
#pragma unroll
    for (int32_t half = 0; half < 2; half++)
#pragma unroll(PAIRS_AT_ONCE > 1 ? 2 : 1)
        for (int32_t p = 2 * half; p < 2 * half + 2; p++) {
            const uint2 b = x->b[half];
            const bool own[2] = {lane / 8 == 2 * (p % 2), lane / 8 == 2 * (p % 2) + 1};
#pragma unroll
            for (int32_t k = 0; k < SLOT_BLOCKS; k++) {
                struct one_codes codes;
                one_codes_load(&codes, slot + k * TILE_SLOT, 4, p, lane);
#pragma unroll
                for (int32_t h = 0; h < 2; h++)
                    one_products(kept[k][half], &codes, h, 0,
                                 make_uint2(own[h] ? b.x : 0, own[h] ? b.y : 0));
            }
        }
}

// Adds the products of the tiles of a slot with a tile of X.
DEVICE void one_multiply(const struct one_x *x, const uint8_t *slot, int32_t pairs, int32_t lane,
                         float *acc)
{
    int32_t kept[SLOT_BLOCKS][SIXTEENS][4];
    (void)pairs;
    slot_products(x, slot, lane, kept);
#pragma unroll
    for (int32_t k = 0; k < SLOT_BLOCKS; k++)
        tile_scale(slot + k * TILE_SLOT, 4, lane, x->meta, kept[k], acc + 2 * k);
}

#else

// The tile's products with a lane's units, and what it adds to its two rows. A tile of fewer than four pairs is multiplied as one of
// four: nobody keeps what the slot has behind it.
DEVICE void tile_products(const struct one_x *x, const uint8_t *slot, int32_t pairs, int32_t lane,
                          float acc[2])
{
    const int32_t r = lane / 4, c = lane % 4;
    int32_t kept[SIXTEENS][4];
#if TILE_GROUP == 16
#pragma unroll
    for (int32_t g = 0; g < SIXTEENS; g++)
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            kept[g][k] = x->start[g][k];
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        if (p >= pairs)
            break;
        pair_add(slot, pairs, p, lane, x->b[0], kept);
    }
#else
#pragma unroll PAIRS_AT_ONCE
    for (int32_t p = 0; p < 4; p++) {
        int32_t d[2][4];
        pair_products(slot, pairs, p, lane, x->start[0], x->b[0], d);
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
            kept[0][k] = p == 0 || p == c ? d[k % 2][k] : kept[0][k];
    }
#endif
    if (WEFT_COLS || TILE_SUPER || c < pairs)
        tile_scale(slot, pairs, lane, x->meta, kept, acc);
}

DEVICE void one_multiply(const struct one_x *x, const uint8_t *slot, int32_t pairs, int32_t lane,
                         float *acc)
{
#pragma unroll
    for (int32_t k = 0; k < SLOT_BLOCKS; k++)
        tile_products(x, slot + k * TILE_SLOT, pairs, lane, acc + 2 * k);
}

#endif

#endif
