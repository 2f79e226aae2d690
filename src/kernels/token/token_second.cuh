// SPDX-License-Identifier: MIT
// A second format, WEFT_SECOND (and WEFT_FIRST that of all others, for NVRTC does not put macros away): V and down of some layers have it (weft__token_args.second). Its decoding and its products are
// those of linear_few_one.cuh, compiled once more under a name of their own.
//
// A slot has two tiles of it, one for each warp of the team: two columns of one block, of down of one and the other block in turn, so that a
// warp has the columns of a chain of eight of one block; or, where chains are of sixteen, first those of the first block.
#ifndef WEFT_KERNELS_TOKEN_SECOND_CUH
#define WEFT_KERNELS_TOKEN_SECOND_CUH

#if WEFT_SECOND
#undef WEFT_FORMAT
#define WEFT_FORMAT WEFT_SECOND
namespace second_format
{
#include "src/kernels/linear/linear_few_one.cuh"
enum { SECOND_TILE_BYTES = TILE_BYTES(4) };
#if WEFT_SECOND == FORMAT_Q6_K && WEFT_FIRST == FORMAT_Q4_K // whose tiles have these registers else
#define SECOND_HOLDS 1

// A tile in registers: so its slot is asked for anew before it is multiplied, and the first of down are there before X is. of[0]: the low four bits of pairs; of[1]: the upper two, two pairs in one; of[1][2]: of rows r and r + 8 the scales of the lane's
// pair, a byte each, and two f16.

// Returns a number made of all loads.
DEVICE uint32_t held_tile_load(uint4 of[2][4], const uint8_t *tile, int32_t lane)
{
    const uint8_t *tops = tile + 4 * PAIR_LOW + lane * 8;
    const uint8_t *meta = tile + 4 * (PAIR_LOW + PAIR_HIGH);
    const int32_t r = lane / 4, c = lane % 4;
    uint32_t all = 0;
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
        of[0][p] = *(const uint4 *)(tile + p * PAIR_LOW + lane * 16);
#pragma unroll
    for (int32_t p = 0; p < 2; p++) {
        const uint2 one = *(const uint2 *)(tops + 2 * p * PAIR_HIGH);
        const uint2 two = *(const uint2 *)(tops + (2 * p + 1) * PAIR_HIGH);
        of[1][p] = make_uint4(one.x, one.y, two.x, two.y);
    }
    const uint8_t *scales = meta + r * 16 + c * 4, *d = meta + 256 + r * 2;
    of[1][2] = make_uint4(*(const uint32_t *)scales, *(const uint32_t *)(scales + 128),
                          *(const uint16_t *)d | (uint32_t) * (const uint16_t *)(d + 16) << 16, 0);
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
        all ^= of[0][p].x ^ (p % 2 ? of[1][p / 2].z : of[1][p / 2].x);
    return all ^ of[1][2].x ^ of[1][2].y ^ of[1][2].z;
}

// What it is multiplied by. Column 2 p + g of B is the x of sixteen g of a unit of pair p, and zero for the other sixteen and in products of
// other pairs: so those of even and of odd units add up in a chain each, and lane (r, c) has the sixteens of pair c at their ends.
struct held_x {
    uint32_t x[2];         // of unit h of the lane's pair lane / 8, sixteen lane / 4 % 2
    struct x_meta meta[2]; // of pair lane % 4
};

DEVICE struct held_x held_x_of(const uint8_t *row, const uint8_t *metas, int32_t tile, int32_t lane)
{
    const int32_t c = lane % 4;
    struct held_x x;
    const uint8_t *at = row + tile * 256 + lane / 8 * 64 + c * 16 + lane / 4 % 2 * 4;
    x.x[0] = *(const uint32_t *)at, x.x[1] = *(const uint32_t *)(at + 8);
    const uint4 own = ((const uint4 *)metas)[tile * 4 + c];
    x.meta[0] = x_meta_of(own, 0), x.meta[1] = x_meta_of(own, 1);
    return x;
}

// Products of unit h: dots[h][2 i + g] of row r + 8 i and sixteen g of the lane's pair.
DEVICE void held_dots(const uint4 of[2][4], const struct held_x *x, int32_t lane,
                      int32_t dots[2][4])
{
    const bool second = lane & 4;
#pragma unroll
    for (int32_t k = 0; k < 8; k++)
        dots[k / 4][k % 4] = one_start(x->meta[k / 4], TILE_OFFSET, k % 2);
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        const uint32_t w[4] = {of[0][p].x, of[0][p].y, of[0][p].z, of[0][p].w};
        const uint4 both = of[1][p / 2];
        const uint32_t top[2] = {p % 2 ? both.z : both.x, p % 2 ? both.w : both.y};
#pragma unroll
        for (int32_t h = 0; h < 2; h++) {
            uint32_t a[4];
#pragma unroll
            for (int32_t j = 0; j < 4; j++)
                a[j] = (w[j] >> 4 * h & 0x0f0f0f0fu) | (shifted(top[h], 4 - 2 * j) & 0x30303030u);
            const uint32_t own = lane / 8 == p ? x->x[h] : 0;
            mma_u8_k32(dots[h], a, second ? 0 : own, second ? own : 0);
        }
    }
}

DEVICE void held_sum(const uint32_t scales[2], uint32_t d, const struct held_x *x,
                     const int32_t dots[2][4], float acc[2])
{
    const float2 of_row = f16x2_float2(d);
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
#pragma unroll
        for (int32_t g = 0; g < 2; g++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++) {
                const float dot = __int_as_float(dots[h][2 * i + g]) - MAGIC;
                const float scale = times_byte(i ? of_row.y : of_row.x, scales[i], 2 * h + g, 128);
                acc[i] = fmaf(dot * x->meta[h].scale, scale, acc[i]);
            }
}

#else
#define SECOND_HOLDS 0
#endif
} // namespace second_format
#include "src/kernels/linear/linear_format_end.cuh"
#undef WEFT_FORMAT
#define WEFT_FORMAT WEFT_FIRST
#else
#define SECOND_HOLDS 0
#endif

#endif
