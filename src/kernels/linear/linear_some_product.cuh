// SPDX-License-Identifier: MIT
// A warp of linear_some.cu: its columns of X as B fragments in registers, and its products with the same columns of a row
// block.
//
// Codes without a sign whose offset is small, or has a number of its own (PLAIN_CODES), are multiplied as they are: a byte in
// 16 bits is that byte times 2^-24 as f16, exactly. The scale of 32 columns then goes into their sums, and what is added to
// all codes of a unit, offset times scale or minimum, is one product more for a whole tile, with the sums of X of its units,
// each as two numbers of f16. That is 5 instructions for 8 weights where linear_fragment.cuh takes 14.
#ifndef WEFT_KERNELS_LINEAR_SOME_PRODUCT_CUH
#define WEFT_KERNELS_LINEAR_SOME_PRODUCT_CUH

#define PLAIN_CODES                                                                                \
    (!TILE_TABLE && TILE_GROUP == 32 && !WEFT_BRAIN &&                                             \
     (TILE_MIN ? !TILE_SIGNED : TILE_OFFSET && TILE_BITS <= 5))

enum {
    // the largest number of a row comes to [2^LARGEST, 2^(LARGEST + 1)): as in linear_gemm_x.cu; sums of 32 are below 2^15
    LARGEST = PLAIN_CODES ? 9 : 14,
};

// X as B fragments: of eight e and pair p two words for each of four products.
struct x_of_warp {
    uint32_t b[EIGHTS][WEFT_PAIRS][8];
};

// Byte b of a word of codes, times the scale.
DEVICE float x_number(uint32_t word, int32_t b, float scale)
{
    const uint32_t bits = byte_permute(word ^ 0x80808080u, 0x4b000000u, 0x7440 | b);
    return (bits_float(bits) - (8388608.0f + 128.0f)) * scale;
}

struct x_raw {
    uint4 codes[EIGHTS][WEFT_PAIRS];
    float scales[EIGHTS][WEFT_PAIRS][2];
};

DEVICE void x_ask(struct x_raw *raw, const struct weft__linear_device_args *args,
                  const struct part_of_warp *own, int32_t row0, int32_t batch)
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP), r = lane / 4, c = lane % 4;
#pragma unroll
    for (int32_t e = 0; e < EIGHTS; e++) {
        const uint8_t *row =
            (const uint8_t *)args->x +
            (row0 + min(8 * e + r, batch - 1)) * weft__linear_rounded_stride(columns_of(args));
        const uint8_t *metas = row + all_pairs(args) * 64;
#pragma unroll
        for (int32_t p = 0; p < WEFT_PAIRS; p++) {
            const int64_t pair = own->first + p;
            raw->codes[e][p] = make_uint4(0, 0, 0, 0);
            raw->scales[e][p][0] = raw->scales[e][p][1] = 0;
            if (8 * e + r < batch && p < own->count) {
                raw->codes[e][p] = __ldcg((const uint4 *)(row + pair * 64 + c * 16));
                raw->scales[e][p][0] = __ldcg((const float *)(metas + pair * 16));
                raw->scales[e][p][1] = __ldcg((const float *)(metas + pair * 16 + 8));
            }
        }
    }
}

// The exponent of the power of two that a row's numbers are multiplied by.
DEVICE int32_t x_exponent(const float scales[WEFT_PAIRS][2])
{
    uint32_t largest = 0;
#pragma unroll
    for (int32_t i = 0; i < 2 * WEFT_PAIRS; i++)
        largest = max(largest, float_bits(scales[i / 2][i % 2] * 127.0f) & 0x7fffffffu);
    const int32_t up = WEFT_BRAIN || largest == 0 ? 0 : LARGEST + 127 - (int32_t)(largest >> 23);
    return up > 122 ? 122 : up < -126 ? -126 : up;
}

DEVICE void multiply(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (WEFT_BRAIN)
        mma_bf16(d, a, b0, b1);
    else
        mma_f16(d, a, b0, b1);
}

// Sums of the units as B fragments, [eight][lane].
DEVICE uint2 *x_sums(int32_t warp)
{
    return (uint2 *)(shared_memory() + X_SUMS_AT) + warp * (EIGHTS * WARP);
}

// A word of four codes as numbers: bytes 0 and 2, bytes 1 and 3.
DEVICE void x_numbers(uint32_t word, float scale, uint32_t two[2])
{
#if WEFT_BRAIN
#pragma unroll
    for (int32_t b = 0; b < 2; b++)
        two[b] = floats_bf16x2(x_number(word, b, scale), x_number(word, b + 2, scale));
#else
    const uint32_t by = floats_f16x2(scale, scale), codes = word ^ 0x80808080u;
#pragma unroll
    for (int32_t b = 0; b < 2; b++) // under the exponent of 1024
        two[b] = mul_f16x2(sub_f16x2(byte_permute(codes, 0x64646464u, b ? 0x4341u : 0x4240u),
                                     0x64806480u),
                           by);
#endif
}

#if PLAIN_CODES

// The sums of a pair's units, by a product with ones, as two numbers each: the lane of pair p keeps them, where the product of
// the units' sums wants them.
DEVICE void x_keep_sums(uint32_t sums[2], int32_t p, const uint32_t b[8], int32_t lane)
{
    const uint32_t ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
    const int32_t r = lane / 4, c = lane % 4;
    float sum[2];
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        float d[4] = {};
        multiply(d, ones, b[4 * h], b[4 * h + 1]);
        multiply(d, ones, b[4 * h + 2], b[4 * h + 3]);
        const float even = __shfl_sync(0xffffffffu, d[0], r / 2);
        const float odd = __shfl_sync(0xffffffffu, d[1], r / 2);
        sum[h] = (r % 2 ? odd : even) * (float)UNIT_FACTOR(h);
    }
    const uint32_t high = floats_f16x2(sum[0], sum[1]);
    const float2 taken = f16x2_float2(high);
    const uint32_t low = floats_f16x2(sum[0] - taken.x, sum[1] - taken.y);
    if (WEFT_PAIRS == 4) {
        sums[0] = c == p ? high : sums[0];
        sums[1] = c == p ? low : sums[1];
    } else {
        sums[0] = c == p ? high : c == WEFT_PAIRS + p ? low : sums[0];
    }
}

#endif

DEVICE void x_load(struct x_of_warp *x, const struct weft__linear_device_args *args,
                   const struct part_of_warp *own, int32_t warp, int32_t row0, int32_t batch)
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP);
    struct x_raw raw;
    x_ask(&raw, args, own, row0, batch);
#pragma unroll
    for (int32_t e = 0; e < EIGHTS; e++) {
        const int32_t up = x_exponent(raw.scales[e]);
        const float factor = bits_float((uint32_t)(127 + up) << 23);
        if (lane % 4 == 0)
            shared_inverse(warp)[8 * e + lane / 4] = bits_float((uint32_t)(127 - up) << 23);
        uint32_t sums[2] = {0, 0};
#pragma unroll
        for (int32_t p = 0; p < WEFT_PAIRS; p++) {
            const uint4 codes = raw.codes[e][p];
            const uint32_t word[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
            for (int32_t k = 0; k < 4; k++) // codes that stay where they are are too large by UNIT_FACTOR
                x_numbers(word[k],
                          raw.scales[e][p][k / 2] * factor *
                              (PLAIN_CODES ? 1.0f / (float)UNIT_FACTOR(k / 2) : 1.0f),
                          &x->b[e][p][2 * k]);
#if PLAIN_CODES
            x_keep_sums(sums, p, x->b[e][p], lane);
#endif
        }
        if (PLAIN_CODES)
            x_sums(warp)[e * WARP + lane] = make_uint2(sums[0], sums[1]);
    }
    __syncwarp();
}

// Where a warp's columns lie in a slot: pairs of codes, the pair of the tile that they begin with.
struct slot_of_warp {
    const uint8_t *at;
    int32_t pairs, before;
};

DEVICE struct slot_of_warp slot_of(const struct part_of_warp *own, const uint8_t *slot)
{
    struct slot_of_warp in = {slot, WHOLE ? own->tile_pairs : (int32_t)WEFT_PAIRS,
                              WHOLE ? 0 : own->first % 4};
    return in;
}

#if PLAIN_CODES

// Codes of a pair: bytes, or both units' in each byte where they may stay.
DEVICE void plain_codes(const uint8_t *slot, int32_t pairs, int32_t p, int32_t lane,
                        uint32_t codes[2][4])
{
    if (TILE_IN_PLACE) {
        const uint4 w = *(const uint4 *)(slot + p * PAIR_LOW + lane * 16);
        codes[0][0] = w.x, codes[0][1] = w.y, codes[0][2] = w.z, codes[0][3] = w.w;
    } else {
        uint32_t below[2][4];
        pair_codes(slot, pairs, p, lane, codes, below);
    }
}

// Bytes b and b + 2 of word j of unit h.
DEVICE uint32_t plain_number(const uint32_t codes[2][4], int32_t h, int32_t j, int32_t b)
{
    if (TILE_IN_PLACE)
        return (b ? codes[0][j] >> 8 : codes[0][j]) & (h ? 0x00f000f0u : 0x000f000fu);
    return byte_permute(codes[h][j], 0, b ? 0x4341u : 0x4240u);
}

// Offsets or minima of the units as an A fragment, in the order of x_keep_sum().
DEVICE void offsets_load(const struct tile_scales *scales, const struct part_of_warp *own,
                         int32_t before, int32_t lane, uint32_t a[4])
{
    const int32_t p = lane % 4 % WEFT_PAIRS;
    const bool there = WEFT_COLS || p < own->count;
    float v[2][2]; // row, unit
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        float scale[2][1], add[2][1] = {};
        unit_scales(scales, own->tile_pairs, before + p, h, lane / 4, scale, add);
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
            v[i][h] = !there ? 0.0f : TILE_MIN ? add[i][0] : scale[i][0] * (float)TILE_OFFSET;
    }
    a[0] = floats_f16x2(v[0][0], v[0][1]), a[1] = floats_f16x2(v[1][0], v[1][1]);
    a[2] = WEFT_PAIRS == 4 ? a[0] : 0, a[3] = WEFT_PAIRS == 4 ? a[1] : 0;
}

// The warp's columns of a row block.
DEVICE void tile_multiply(const struct x_of_warp *x, const struct part_of_warp *own, int32_t warp,
                          const uint8_t *slot, float d[EIGHTS][4])
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP);
    const struct slot_of_warp in = slot_of(own, slot);
    struct tile_scales scales;
    tile_scales_load(&scales, slot, in.pairs, lane / 4);
#pragma unroll
    for (int32_t p = 0; p < WEFT_PAIRS; p++) {
        if (!WEFT_COLS && p >= own->count)
            break;
        uint32_t codes[2][4];
        plain_codes(slot, in.pairs, p, lane, codes);
#pragma unroll
        for (int32_t h = 0; h < 2; h++) {
            float scale[2][1], add[2][1], unit[EIGHTS][4] = {};
            unit_scales(&scales, own->tile_pairs, in.before + p, h, lane / 4, scale, add);
#pragma unroll
            for (int32_t half = 0; half < 2; half++) {
                uint32_t a[4];
#pragma unroll
                for (int32_t i = 0; i < 4; i++)
                    a[i] = plain_number(codes, h, 2 * half + i % 2, i / 2);
#pragma unroll
                for (int32_t e = 0; e < EIGHTS; e++)
                    multiply(unit[e], a, x->b[e][p][4 * h + 2 * half],
                             x->b[e][p][4 * h + 2 * half + 1]);
            }
#pragma unroll
            for (int32_t i = 0; i < 4 * EIGHTS; i++)
                d[i / 4][i % 4] =
                    fmaf(unit[i / 4][i % 4], scale[i % 4 / 2][0], d[i / 4][i % 4]);
        }
    }
    uint32_t a[4];
    offsets_load(&scales, own, in.before, lane, a);
#pragma unroll
    for (int32_t e = 0; e < EIGHTS; e++) {
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            d[e][i] *= 0x1p24f;
        const uint2 sums = x_sums(warp)[e * WARP + lane];
        multiply(d[e], a, sums.x, sums.y);
    }
}

#else

// The warp's columns of a row block.
DEVICE void tile_multiply(const struct x_of_warp *x, const struct part_of_warp *own, int32_t warp,
                          const uint8_t *slot, float d[EIGHTS][4])
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP);
    const struct slot_of_warp in = slot_of(own, slot);
    struct tile_scales scales;
    (void)warp;
    tile_scales_load(&scales, slot, in.pairs, lane / 4);
#pragma unroll
    for (int32_t p = 0; p < WEFT_PAIRS; p++) {
        if (!WEFT_COLS && p >= own->count)
            break;
        uint32_t fragment[4][4];
        pair_fragments_of(&scales, own->tile_pairs, in.before + p, slot, in.pairs, p, lane,
                          fragment);
#pragma unroll
        for (int32_t k = 0; k < 4; k++)
#pragma unroll
            for (int32_t e = 0; e < EIGHTS; e++)
                multiply(d[e], fragment[k], x->b[e][p][2 * k], x->b[e][p][2 * k + 1]);
    }
}

#endif

#endif
