// SPDX-License-Identifier: MIT
// Tiles of W in a ring of linear_gemm_team.cu: 64 columns of two row blocks by all rows of X.
#ifndef WEFT_KERNELS_LINEAR_GEMM_TEAM_TILE_CUH
#define WEFT_KERNELS_LINEAR_GEMM_TEAM_TILE_CUH

// The codes of a row block's pair as B of unit h for rows 8 i .. 8 i + 7: b[h][i][k]. With an offset they are signed;
// top: 0x80808080, as the compiler does not know.
DEVICE void codes_of(const uint8_t *codes, int32_t lane, uint32_t top, uint32_t b[2][2][2])
{
    const uint4 quad = *(const uint4 *)(codes + lane * 16);
    const uint32_t w[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int32_t j = 0; j < 4; j++) {
        b[0][j % 2][j / 2] = TILE_OFFSET ? (w[j] << 4 & 0xf0f0f0f0u) ^ top : w[j] & 0x0f0f0f0fu;
        b[1][j % 2][j / 2] = TILE_OFFSET ? (w[j] & 0xf0f0f0f0u) ^ top : w[j] & 0xf0f0f0f0u;
    }
}

// Scales of a row block's pair: [unit][i][odd] of row 2 c + 8 i + odd.
DEVICE void scales_of(const uint8_t *ring, const uint8_t *slot, int32_t p, int32_t k, int32_t c,
                      float scale[2][2][2])
{
#if TILE_SUPER
    (void)slot;
    const float4 *at = (const float4 *)(ring + NUMBERS) + ((p * 2 + k) * 4 + c) * 2;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const float4 of = at[i];
        scale[0][i][0] = of.x, scale[1][i][0] = of.y;
        scale[0][i][1] = of.z, scale[1][i][1] = of.w;
    }
#else // two f16 of rows r and r + 8, by unit
    (void)ring, (void)p;
    const uint4 of = *(const uint4 *)(slot + SLOT_SCALES + k * TILE_META + c * 16);
    const uint32_t word[2][2] = {{of.x, of.z}, {of.y, of.w}};
#pragma unroll
    for (int32_t e = 0; e < 4; e++) {
        const float2 both = f16x2_float2(word[e / 2][e % 2]);
        scale[e / 2][0][e % 2] = both.x, scale[e / 2][1][e % 2] = both.y;
    }
#endif
}

// Of a lane: X from a pair on, and what products start from.
struct own_x {
    const uint8_t *codes;
    const float *scales;
    int32_t start[4];
};

// Pair p of a tile by all rows of X.
DEVICE void pair_add(const uint8_t *ring, int32_t p, const struct own_x *x, uint32_t top,
                     int32_t lane, float sum[2][2][4])
{
    const uint8_t *slot = ring + p % WEFT_STAGES * SLOT;
    uint32_t b[2][2][2][2];
    float scales[2][2][2][2];
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        codes_of(slot + k * PAIR_LOW, lane, top, b[k]);
        scales_of(ring, slot, p, k, lane % 4, scales[k]);
    }
    const float4 by = *(const float4 *)x->scales;
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const uint4 codes = *(const uint4 *)(x->codes + h * 512);
        const uint32_t a[4] = {codes.x, codes.y, codes.z, codes.w};
        const float of_row[2] = {h ? by.y : by.x, h ? by.w : by.z};
        const float less[2] = {of_row[0] * -96, of_row[1] * -96};
#pragma unroll
        for (int32_t k = 0; k < 2; k++) {
#pragma unroll
            for (int32_t i = 0; i < 2; i++) {
                int32_t d[4];
                if (TILE_OFFSET)
                    mma_s8_k32_from(d, a, b[k][h][i][0], b[k][h][i][1], x->start);
                else
                    mma_s8_u8_k32_from(d, a, b[k][h][i][0], b[k][h][i][1], x->start);
#pragma unroll
                for (int32_t e = 0; e < 4; e++) {
                    const float dot = fmaf(__int_as_float(d[e]), of_row[e / 2], less[e / 2]);
                    sum[k][i][e] = fmaf(dot, scales[k][h][i][e % 2], sum[k][i][e]);
                }
            }
        }
    }
}

#if TILE_SUPER

// What the minima of a tile's row block add. In B of m16n8k8 are the minima of 8 rows' units, exactly, in A sums of X, two numbers of
// tf32 each: what has its 11 bits, and the rest. The rows' own number follows.
DEVICE void minima_add(const uint8_t *scales, const float *sums, int32_t lane, float sum[2][4])
{
    const int32_t r = lane / 4, c = lane % 4;
    struct tile_scales of;
    uint32_t b[2][2];
    float less[2][2];
    tile_scales_load(&of, scales - 4 * (PAIR_LOW + PAIR_HIGH), 4, r);
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
#pragma unroll
        for (int32_t k = 0; k < 2; k++) {
            b[i][k] = float_bits(times_byte(1, of.m[i][k], c, 0));
            less[i][k] = -f16_float(*(const uint16_t *)(scales + (2 * c + 8 * i + k) * 16 + 2));
        }
    const float4 all = *(const float4 *)(sums + lane * 4);
    const float whole[4] = {all.x, all.y, all.z, all.w};
    uint32_t high[4], low[4];
#pragma unroll
    for (int32_t e = 0; e < 4; e++) {
        high[e] = float_bits(whole[e]) & 0xffffe000u;
        low[e] = float_bits(whole[e] - bits_float(high[e]));
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        float d[4] = {};
        mma_tf32(d, low, b[i][0], b[i][1]);
        mma_tf32(d, high, b[i][0], b[i][1]);
#pragma unroll
        for (int32_t e = 0; e < 4; e++)
            sum[i][e] = fmaf(d[e], less[i][e % 2], sum[i][e]);
    }
}

// A tile's scales become numbers, a row a lane, once its minima are added.
DEVICE void tile_begin(uint8_t *ring, const float *sums, int32_t lane, float sum[2][2][4])
{
    const uint8_t *scales = ring + TILE_SCALES;
    const int32_t row = lane % 16, k = lane / 16;
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        minima_add(scales + i * TILE_META, sums, lane, sum[i]);
    const uint4 w = *(const uint4 *)(scales + lane * 16);
    const float d = f16_float(w.x & 0xffffu);
    const uint32_t sc[2] = {w.y & 0x3f3f3f3fu, (w.w & 0x0f0f0f0fu) | (w.y >> 2 & 0x30303030u)};
    float2 *to = (float2 *)(ring + NUMBERS) + (k * 4 + row % 8 / 2) * 4 + row / 8 * 2 + row % 2;
#pragma unroll
    for (int32_t p = 0; p < 4; p++)
        to[p * 32] = make_float2(times_byte(d, sc[p / 2], p % 2 * 2, 0),
                                 times_byte(d, sc[p / 2], p % 2 * 2 + 1, 0));
}

#endif

#endif
