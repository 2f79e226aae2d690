// SPDX-License-Identifier: MIT
// Some rows of X, rounded: a unit of 16 rows of W by eight of X is one product on tensor cores (two where scales
// are of sixteen), and each of the four results that a lane has of it takes two operations: it becomes a number
// times the scale of X, then times that of W it is added. What a unit needs of X besides is made once, on its way into
// shared memory. For linear_few.cu and linear_gemm_slice.cu; SOME_ROWS: 8 or 16, SOME_WHOLE: no tile is partial, SOME_BUSY: much else is
// in registers; SOME_LAID: codes of X lie in the order of lanes.
//
//      shared memory: codes [row][64 columns][64], rows an odd number of 64 bytes apart, which keeps lanes in different banks
//                     numbers of units, planes [64 columns][two rows], those of unit 0 for both rows, then those of unit 1:
//          scale       as much smaller as the codes of W are too large, of 22 bits
//          -96 scale   exactly: so a fused product takes the 96 off that sums of products stand above, and scales them
//          [sixteen]   (or of the unit) what products start from, 96 (where they are not integers) and what the format's offset adds; or, where it has minima,
//                      what these are multiplied by, sums of X
//                     X_SUMS: instead of the last, [256 columns][row][c] sums of X of units c and c + 4, of sixteens c, c + 4, c + 8, c + 12
//
// Sums of products are integers in steps of 2^-17 above 96, so that no product with 96 is too large for a float: results are
// too small by X_STEP.
#ifndef WEFT_KERNELS_LINEAR_SOME_CUH
#define WEFT_KERNELS_LINEAR_SOME_CUH

#include "src/kernels/cuda/mma.cuh"
#include "src/kernels/linear/linear_tile.cuh"

#define X_SIGNED_IN_PLACE (TILE_IN_PLACE && TILE_OFFSET)
#if TILE_TABLE
#define X_OFFSET SIGNED_TABLE_OFFSET
#else
#define X_OFFSET (X_SIGNED_IN_PLACE ? 0 : TILE_OFFSET)
#endif
// Minima are products on tensor cores as well, where tf32 holds them (or what is left of them without the
// number of the row's that all have).
#define X_SUMS (TILE_MIN && (TILE_GROUP == 32 || TILE_FINE) && !TILE_GRID && TILE_BITS < 8)
#define X_MORE (!X_SUMS && (TILE_MIN || X_OFFSET) ? 32 / TILE_GROUP : 0)
// Are a lane's eight columns to be picked out of codes that lie as in memory? (SOME_LAID: they lie as lanes have them.)
#define X_EIGHTS (TILE_EIGHTS && !SOME_LAID)
// Codes of two bits with scales that are integers stay in place: those of rows r + 8 are four times too large.
#define X_IN_PLACE (TILE_FINE && TILE_BITS == 2)
#define X_BITS     0x42c00000 // 96
// Points of a lattice: a lane makes the scales whose bits it has, where there are registers for them.
#define SCALES_GIVEN (TILE_GRID && !(SOME_ROWS == 16 && SOME_BUSY))
#define X_STEP       0x1p-17f

static_assert(2 + X_MORE + X_SUMS * SIXTEENS == WEFT__LINEAR_SOME_NUMBERS(WEFT_FORMAT),
              "shared memory of X");

// X in shared memory, from a pair on; `codes` of the lane's row.
struct x_of_block {
    const uint4 *codes;
    const float4 *numbers;
    const float2 *sums; // X_SUMS: of the tile
    int32_t row, plane; // from row to row of codes, from plane to plane
};

// 22 bits of a scale; infinities and NaN stay what they are.
DEVICE float x_scale(float scale, float by)
{
    const uint32_t bits = float_bits(scale * by);
    return bits_float((bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 2) & ~3u);
}

// What follows the scale of a unit of sums `sums`, of its sixteen g.
DEVICE float x_more(float scale, uint32_t sums, int32_t g)
{
    const int32_t first = (int16_t)sums, second = (int32_t)sums >> 16;
    const int32_t sum = SIXTEENS == 1 ? first + second : g ? second : first;
    return TILE_MIN    ? scale * ((float)sum * X_STEP)
           : TILE_FINE ? __int_as_float(X_OFFSET * sum)
                       : __int_as_float(X_BITS + X_OFFSET * sum);
}

// Numbers of pair `pair` of rows n and n + 1, which lie in memory as `two`, in planes of `plane`.
DEVICE void x_two(float4 *numbers, int32_t plane, int32_t pair, int32_t n, const uint4 two[2])
{
    float4 *to = numbers + pair * (SOME_ROWS / 2) + n / 2;
#if X_SUMS
    float *sums = (float *)(numbers + 2 * plane) + (pair / 4 * SOME_ROWS + n) * (8 * SIXTEENS);
#pragma unroll
    for (int32_t i = 0; i < 4 * SIXTEENS; i++) {
        const uint4 own = two[i / (2 * SIXTEENS)];
        const int32_t h = i / SIXTEENS % 2, g = i % SIXTEENS;
        const int32_t at =
            SIXTEENS == 1 ? pair % 2 * 4 + h * 2 + pair % 4 / 2 : (2 * h + g) * 4 + pair % 4;
        sums[i / (2 * SIXTEENS) * (8 * SIXTEENS) + at] =
            x_more(bits_float(h ? own.z : own.x), h ? own.w : own.y, g);
    }
#endif
    const float by[2] = {X_SIGNED_IN_PLACE ? 0.0625f : 1.0f, TILE_IN_PLACE ? 0.0625f : 1.0f};
    const float4 scale =
        make_float4(x_scale(bits_float(two[0].x), by[0]), x_scale(bits_float(two[1].x), by[0]),
                    x_scale(bits_float(two[0].z), by[1]), x_scale(bits_float(two[1].z), by[1]));
    to[0] = scale;
    to[plane] = make_float4(scale.x * -96, scale.y * -96, scale.z * -96, scale.w * -96);
#pragma unroll
    for (int32_t g = 0; g < X_MORE; g++)
        to[(2 + g) * plane] = make_float4(
            x_more(bits_float(two[0].x), two[0].y, g), x_more(bits_float(two[1].x), two[1].y, g),
            x_more(bits_float(two[0].z), two[0].w, g), x_more(bits_float(two[1].z), two[1].w, g));
}

// The numbers of unit `unit` of row n one by one: lane c of four makes that of plane c, or of the last two sums.
DEVICE void x_unit(float4 *numbers, int32_t plane, int32_t unit, int32_t n, int32_t c, float scale,
                   uint32_t sums)
{
    const int32_t pair = unit / 2, h = unit % 2;
    float *to = (float *)(numbers + pair * (SOME_ROWS / 2) + n / 2) + 2 * h + n % 2;
    const float by = h ? (TILE_IN_PLACE ? 0.0625f : 1.0f) : (X_SIGNED_IN_PLACE ? 0.0625f : 1.0f);
    const float own = x_scale(scale, by);
    if (c < 2)
        to[4 * c * plane] = c ? own * -96 : own;
#if X_SUMS
    else if (c - 2 < SIXTEENS) {
        const int32_t g = c - 2;
        const int32_t at =
            SIXTEENS == 1 ? pair % 2 * 4 + h * 2 + pair % 4 / 2 : (2 * h + g) * 4 + pair % 4;
        ((float *)(numbers + 2 * plane))[(pair / 4 * SOME_ROWS + n) * (8 * SIXTEENS) + at] =
            x_more(scale, sums, g);
    }
#elif X_MORE
    else if (c - 2 < X_MORE)
        to[4 * c * plane] = x_more(scale, sums, c - 2);
#endif
}

// What codes of tables are made with.
struct some_constants {
#if TILE_TABLE
    struct signed_tables tables;
#endif
};

DEVICE struct some_constants some_constants_make()
{
    struct some_constants with = {};
#if TILE_TABLE
    with.tables.first = kept_here(SIGNED_TABLE_0), with.tables.second = kept_here(SIGNED_TABLE_2);
#endif
    return with;
}

// A lane's codes of a pair, where these stay in place and have an offset with their sign, 16 times too large. top:
// some_top().
DEVICE void some_codes(const struct some_constants *with, const uint8_t *slot, int32_t pairs,
                       int32_t p, int32_t lane, uint32_t top, uint32_t a[2][4],
                       uint32_t below[2][4])
{
    (void)with;
#if X_SIGNED_IN_PLACE
    (void)pairs, (void)below;
    const uint4 quad = *(const uint4 *)(slot + p * PAIR_LOW + lane * 16);
    const uint32_t w[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int32_t j = 0; j < 4; j++) {
        a[0][j] = (w[j] << 4 & 0xf0f0f0f0u) ^ top;
        a[1][j] = (w[j] & 0xf0f0f0f0u) ^ top;
    }
#elif TILE_TABLE
    (void)pairs, (void)top;
    signed_codes(with->tables, slot, p, lane, a, below);
#else
    (void)top;
    pair_codes(slot, pairs, p, lane, a, below, X_IN_PLACE);
#endif
}

// The products of a unit, of its sixteen g where scales are so fine.
DEVICE void unit_products(int32_t d[4], const uint32_t a[4], int32_t g, uint32_t b0, uint32_t b1)
{
    if (TILE_HALVES) {
        const bool own = (int32_t)threadIdx.x % 4 / 2 == g;
        mma_s8_k32(d, a, own ? b0 : 0, own ? b1 : 0);
    } else if (SIXTEENS == 2 && TILE_TABLE)
        mma_s8_k16(d, a[2 * g], a[2 * g + 1], g ? b1 : b0);
    else if (SIXTEENS == 2)
        mma_u8_k16(d, a[2 * g], a[2 * g + 1], g ? b1 : b0);
    else if (TILE_SIGNED || TILE_TABLE || X_SIGNED_IN_PLACE)
        mma_s8_k32(d, a, b0, b1);
    else
        mma_u8_k32(d, a, b0, b1);
}

// The numbers that a lane has of its two rows of X for the units of a pair.
struct x_of_pair {
    float4 scale, less, more[SIXTEENS];
};

DEVICE struct x_of_pair x_of_pair_at(const struct x_of_block *x, int32_t pair, int32_t two)
{
    const float4 *at = x->numbers + pair * (SOME_ROWS / 2) + two;
    struct x_of_pair own;
    own.scale = at[0], own.less = at[x->plane];
#pragma unroll
    for (int32_t g = 0; g < X_MORE; g++)
        own.more[g] = at[(2 + g) * x->plane];
    return own;
}

// Of both rows for unit h.
DEVICE float2 of_unit(float4 of_pair, int32_t h)
{
    return h ? make_float2(of_pair.z, of_pair.w) : make_float2(of_pair.x, of_pair.y);
}

// One unit of 16 rows by the two rows of X that this lane has.
DEVICE void unit_multiply(const uint32_t a[4], const uint32_t below[4],
                          const float scale[2][SIXTEENS], const float add[2][SIXTEENS], uint32_t b0,
                          uint32_t b1, const struct x_of_pair *x, int32_t h, float *acc)
{
    const float2 by = of_unit(x->scale, h), less = of_unit(x->less, h);
#pragma unroll
    for (int32_t g = 0; g < SIXTEENS; g++) {
        int32_t d[4] = {X_BITS, X_BITS, X_BITS, X_BITS};
#if X_MORE
        const float2 more = of_unit(x->more[g], h);
        if (!TILE_MIN)
            d[0] = d[2] = __float_as_int(more.x), d[1] = d[3] = __float_as_int(more.y);
#endif
        unit_products(d, a, g, b0, b1);
        if (TILE_TABLE)
            unit_products(d, below, g, b0, b1);
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            const float dot =
                fmaf(__int_as_float(d[i]), i % 2 ? by.y : by.x, i % 2 ? less.y : less.x);
            acc[i] = fmaf(dot, scale[i / 2][g], acc[i]);
#if TILE_MIN && !X_SUMS
            acc[i] = fmaf(i % 2 ? more.y : more.x, add[i / 2][g], acc[i]);
#endif
        }
    }
}

#if TILE_FINE

// Scales of the sixteens of pair p in row r + 8 i, bytes with a sign.
DEVICE uint32_t fine_bytes(const struct tile_scales *scales, int32_t i, int32_t p)
{
#if WEFT_FORMAT == FORMAT_Q2_K
    return scales->sc[i][p] & 0x0f0f0f0fu;
#else
    return (scales->sc[i][p] + 0x60606060u) ^ 0x80808080u; // less 32
#endif
}

// The same where scales are integers: sums of both sixteens, which 16 bits hold, meet their scales in one instruction. What a row
// has before them follows once a tile.
DEVICE void unit_fine(const uint32_t a[4], const uint32_t bytes[2], uint32_t b0, uint32_t b1,
                      const struct x_of_pair *x, int32_t h, float *part)
{
    const float2 by = of_unit(x->scale, h), less = of_unit(x->less, h);
    int32_t d[2][4] = {};
#pragma unroll
    for (int32_t g = 0; g < 2; g++) {
#if X_MORE
        const float2 more = of_unit(x->more[g], h);
        d[g][0] = d[g][2] = __float_as_int(more.x), d[g][1] = d[g][3] = __float_as_int(more.y);
#endif
        unit_products(d[g], a, g, b0, b1);
    }
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        const uint32_t both = byte_permute((uint32_t)d[0][i], (uint32_t)d[1][i], 0x5410);
        const int32_t dot =
            h ? dot_2_high(both, bytes[i / 2], X_BITS) : dot_2_low(both, bytes[i / 2], X_BITS);
        part[i] += fmaf(__int_as_float(dot), i % 2 ? by.y : by.x, i % 2 ? less.y : less.x);
    }
}

#endif

// The eight columns of each unit of a pair that lane (r, c) has: two words of a row of X.
DEVICE uint4 x_eights(const uint4 *pair, int32_t c)
{
    const uint4 first = pair[c % 2 * 2], second = pair[c % 2 * 2 + 1];
    return c < 2 ? make_uint4(first.x, second.x, first.z, second.z)
                 : make_uint4(first.y, second.y, first.w, second.w);
}

// So many pairs have text of their own, which the compiler mixes: some spill with four.
#ifndef SOME_PAIRS
#define SOME_PAIRS 4
#endif
enum {
    SOME_AT_ONCE = TILE_FINE                      ? 4
                   : SOME_ROWS == 16 && SOME_BUSY ? 1
                   : TILE_BITS < 4                ? 2
                                                  : SOME_PAIRS
};

// 0x80808080, from what is not negative: as a constant the compiler would put it into an operation of its own.
DEVICE uint32_t some_top(int32_t count)
{
    return 0x80808080u - (uint32_t)(count >> 31);
}

#if X_SUMS

// The minima of units c and c + 4 (of sixteens 4 from + c and 4 from + 4 + c) of rows r and r + 8, as A of a product of tf32 has them; of formats that have a number of the row's beside
// them, without that.
DEVICE void tile_minima(const struct tile_scales *scales, int32_t from, int32_t pairs, int32_t lane,
                        uint32_t a[4])
{
    (void)from;
    const int32_t r = lane / 4, c = lane % 4;
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
#if TILE_FINE
        (void)pairs, (void)r;
        a[2 * k] = float_bits(times_byte(0.0625f, scales->sc[0][from + k] & 0xf0f0f0f0u, c, 0));
        a[2 * k + 1] = float_bits(times_byte(0.0625f, scales->sc[1][from + k] & 0xf0f0f0f0u, c, 0));
#elif TILE_SUPER
        (void)pairs, (void)r;
        a[2 * k] = float_bits(times_byte(1, scales->m[0][k], c, 0));
        a[2 * k + 1] = float_bits(times_byte(1, scales->m[1][k], c, 0));
#else
        float scale[2][SIXTEENS], add[2][SIXTEENS];
        const int32_t p = 2 * k + c / 2;
        const bool there = SOME_WHOLE || p < pairs;
        unit_scales(scales, pairs, there ? p : 0, c % 2, r, scale, add);
        a[2 * k] = there ? float_bits(add[0][0]) : 0;
        a[2 * k + 1] = there ? float_bits(add[1][0]) : 0;
#endif
    }
}

// What the minima of a tile add: sums of X are two numbers of tf32, what has its 11 bits and the rest.
#define TF32 0xffffe000u
DEVICE void minima_add(const struct tile_scales *scales, int32_t pairs, int32_t lane,
                       const struct x_of_block *x, float *acc)
{
    uint32_t a[SIXTEENS][4];
#pragma unroll
    for (int32_t k = 0; k < SIXTEENS; k++)
        tile_minima(scales, 2 * k, pairs, lane, a[k]);
#pragma unroll
    for (int32_t eight = 0; eight < SOME_ROWS / 8; eight++) {
        const float2 *sums = x->sums + (eight * 32 + lane) * SIXTEENS;
        float d[4] = {};
#pragma unroll
        for (int32_t k = 0; k < SIXTEENS; k++) {
            const uint32_t high[2] = {float_bits(sums[k].x) & TF32, float_bits(sums[k].y) & TF32};
            const uint32_t low[2] = {float_bits(sums[k].x - bits_float(high[0])),
                                     float_bits(sums[k].y - bits_float(high[1]))};
#if TILE_SUPER
            mma_tf32(d, a[k], low[0], low[1]);
            mma_tf32(d, a[k], high[0], high[1]);
#else
            (void)d;
            mma_tf32(acc + 4 * eight, a[k], low[0], low[1]);
            mma_tf32(acc + 4 * eight, a[k], high[0], high[1]);
#endif
        }
#if TILE_SUPER
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            acc[4 * eight + i] = fmaf(d[i], scales->dmin[i / 2], acc[4 * eight + i]);
#endif
    }
}

#endif

#if TILE_FINE

// Sums of a tile, by the scales of its rows.
DEVICE void fine_settle(const struct tile_scales *scales, const float part[SOME_ROWS / 2],
                        float *acc)
{
#pragma unroll
    for (int32_t i = 0; i < SOME_ROWS / 2; i++)
        acc[i] =
            fmaf(part[i], scales->d[i % 4 / 2] * (X_IN_PLACE && i % 4 / 2 ? 0.25f : 1.0f), acc[i]);
}

#endif

// The products of TILES tiles of as many row blocks, `stride` bytes apart, of `pairs` pairs each, of MOST at most, with all rows of X,
// whose sums are added to acc[tile][rows / 2]. Rows of X beyond the batch are whatever shared memory holds: nobody reads their results.
template <int32_t MOST, int32_t TILES>
DEVICE void tiles_add(const struct tile_scales scales[TILES], const uint8_t *tiles, int32_t stride,
                      int32_t pairs, int32_t lane, const struct x_of_block *x, uint32_t top,
                      float *acc)
{
    const int32_t c = lane % 4;
    const struct some_constants with = some_constants_make();
#if X_SUMS
#pragma unroll
    for (int32_t t = 0; t < TILES; t++)
        minima_add(&scales[t], pairs, lane, x, acc + t * (SOME_ROWS / 2));
#endif
#if SCALES_GIVEN
    struct grid_own own_scales[TILES];
#pragma unroll
    for (int32_t t = 0; t < TILES; t++)
        grid_own_make(&own_scales[t], tiles + t * stride, scales[t].d, lane);
#endif
#if TILE_FINE
    float part[TILES][SOME_ROWS / 2] = {};
#endif
    const uint4 *codes = x->codes + (X_EIGHTS ? 0 : c);
#pragma unroll SOME_AT_ONCE
    for (int32_t p = 0; p < MOST; p++) {
        if (!SOME_WHOLE && p >= pairs)
            break;
        uint32_t a[TILES][2][4], below[TILES][2][4];
#if TILE_FINE
        uint32_t bytes[TILES][2];
#else
        float scale[TILES][2][2][SIXTEENS], add[TILES][2][2][SIXTEENS];
#endif
#pragma unroll
        for (int32_t t = 0; t < TILES; t++) {
            some_codes(&with, tiles + t * stride, pairs, p, lane, top, a[t], below[t]);
#if TILE_FINE
            bytes[t][0] = fine_bytes(&scales[t], 0, p), bytes[t][1] = fine_bytes(&scales[t], 1, p);
#else
#pragma unroll
            for (int32_t h = 0; h < 2; h++)
#if SCALES_GIVEN
                grid_given(&own_scales[t], 2 * p + h, lane, scale[t][h], add[t][h]);
#else
                unit_scales(&scales[t], pairs, p, h, lane / 4, scale[t][h], add[t][h]);
#endif
#endif
        }
#pragma unroll
        for (int32_t eight = 0; eight < SOME_ROWS / 8; eight++) {
            const uint4 *at = codes + eight * 8 * x->row + p * 4;
            const uint4 b = X_EIGHTS ? x_eights(at, c) : *at;
            const struct x_of_pair own = x_of_pair_at(x, p, 4 * eight + c);
#pragma unroll
            for (int32_t t = 0; t < TILES; t++) {
#if TILE_FINE
                unit_fine(a[t][0], bytes[t], b.x, b.y, &own, 0, part[t] + 4 * eight);
                unit_fine(a[t][1], bytes[t], b.z, b.w, &own, 1, part[t] + 4 * eight);
#else
                float *to = acc + t * (SOME_ROWS / 2) + 4 * eight;
                unit_multiply(a[t][0], below[t][0], scale[t][0], add[t][0], b.x, b.y, &own, 0, to);
                unit_multiply(a[t][1], below[t][1], scale[t][1], add[t][1], b.z, b.w, &own, 1, to);
#endif
            }
        }
    }
#if TILE_FINE
#pragma unroll
    for (int32_t t = 0; t < TILES; t++)
        fine_settle(&scales[t], part[t], acc + t * (SOME_ROWS / 2));
#endif
}

#endif
