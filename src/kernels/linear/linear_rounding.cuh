// SPDX-License-Identifier: MIT
// 32 numbers to int8 with one scale, a warp, a number a lane. As all quantisers of linear do it:
//   scale = a / 127, a = max |x|, NaN if there is one; q = x * (127 / a) rounded to nearest even, 0 where
//   a < 2^-120 or a is not finite.
#ifndef WEFT_KERNELS_LINEAR_ROUNDING_CUH
#define WEFT_KERNELS_LINEAR_ROUNDING_CUH

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/instructions.cuh"
#include "src/kernels/cuda/warp.cuh"

// The sums of squares of a rounded row of `cols` columns.
DEVICE float *round_squares(uint8_t *row, int32_t cols)
{
    return (float *)(row + (cols + 63) / 64 * 80);
}

DEVICE float round_factor(float largest)
{
    return largest >= 0x1p-120f && largest < bits_float(0x7f800000u) ? 127.0f / largest : 0.0f;
}

DEVICE int32_t round_code(float x, float factor)
{
    return factor > 0 ? __float2int_rn(x * factor) : 0;
}

// A group as it is stored: the lane's code; scale and both sums in every lane, the second sixteen's above the first's.
struct rounded_group {
    int32_t code;
    uint32_t scale, sums;
};

DEVICE struct rounded_group round_of(int32_t lane, float x)
{
    const float largest = bits_float(warp_most(float_bits(x) & 0x7fffffffu));
    const int32_t code = round_code(x, round_factor(largest));
    const int32_t sums = warp_total(lane < 16 ? code : code * 65536), first = (int16_t)sums;
    const struct rounded_group group = {code, float_bits(largest / 127.0f),
                                        (uint32_t)(sums - first) | (first & 0xffffu)};
    return group;
}

// Stores group `unit` of a rounded row of `cols` columns (linear_device.h). At the end of a launch everybody waits
// for this: few steps follow from one another.
DEVICE void round_group(uint8_t *row, int32_t cols, int32_t unit, int32_t lane, float x)
{
    const struct rounded_group group = round_of(lane, x);
    row[unit / 2 * 64 + lane % 16 / 4 * 16 + unit % 2 * 8 + lane / 16 * 4 + lane % 4] =
        (uint8_t)group.code;
    if (lane == 0)
        *(uint2 *)(row + (cols + 63) / 64 * 64 + unit * 8) = make_uint2(group.scale, group.sums);
}

// Codes of four columns a word, of a group that lanes of a warp have side by side, WORDS each: round_code()'s, which are the last bytes of
// what stands above 1.5 * 2^23. The largest magnitude of the group.
template <int WORDS> DEVICE float round_words(const float *x, uint32_t (&word)[WORDS])
{
    uint32_t top = 0;
#pragma unroll
    for (int32_t i = 0; i < 4 * WORDS; i++)
        top = max(top, float_bits(x[i]) & 0x7fffffffu);
    const float largest = bits_float(warp_max_bits(top, 8 / WORDS)), factor = round_factor(largest);
#pragma unroll
    for (int32_t w = 0; w < WORDS; w++) {
        uint32_t bits[4];
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            bits[i] = float_bits(__fadd_rn(__fmul_rn(x[4 * w + i], factor), 12582912.0f));
        const uint32_t codes = byte_permute(byte_permute(bits[0], bits[1], 0x0040),
                                            byte_permute(bits[2], bits[3], 0x0040), 0x5410);
        word[w] = factor > 0 ? codes : 0;
    }
    return largest;
}

// The same of four columns a lane, eight lanes a group, from column `at` of a row on whose codes and whose scales lie at `bytes` and
// `metas`. All lanes call; those at `width` and beyond store nothing.
DEVICE void round_fours(uint8_t *bytes, uint8_t *metas, int32_t at, int32_t width, const float x[4])
{
    uint32_t word[1];
    const float largest = round_words(x, word);
    const int32_t sum = warp_sum_int(__dp4a((int32_t)word[0], 0x01010101, 0), 4);
    const int32_t other = __shfl_xor_sync(0xffffffffu, sum, 4);
    if (at >= width)
        return;
    *(uint32_t *)(bytes + at / 64 * 64 + at % 16 * 4 + at % 64 / 32 * 8 + at % 32 / 16 * 4) =
        word[0];
    if (at % 32 == 0)
        *(uint2 *)(metas + at / 32 * 8) = make_uint2(
            float_bits(largest / 127.0f), ((uint32_t)sum & 0xffffu) | (uint32_t)other << 16);
}

// A result beside its stored form: what a reader of `y` would see.
template <int DTYPE> DEVICE float as_stored(float value)
{
    if constexpr (DTYPE == DTYPE_F16)
        return f16_float(floats_f16x2(value, 0) & 0xffffu);
    else if constexpr (DTYPE == DTYPE_BF16)
        return bits_float(floats_bf16x2(value, 0) << 16);
    else
        return value;
}

// The 32 results from `row` on of a row of `rows`, a lane each, times the next norm's weights, as a group of a
// rounded row, with their sum of squares.
DEVICE void round_results(uint8_t *rounded, int32_t rows, int32_t row, int32_t lane, float result,
                          float weight)
{
    round_group(rounded, rows, row / 32, lane, result * weight);
    if (row / 32 % 2 == 0 && row / 32 * 32 + 32 == rows)
        round_group(rounded, rows, row / 32 + 1, lane, 0);
    float square = warp_sum(result * result, 32);
    if (lane == 0)
        round_squares(rounded, rows)[row / 32] = square;
}

// function(gate) * up: 1 SiLU, 2 GELU, 3 GELU by tanh; 0: `gate` alone.
template <int GATE> DEVICE float gated(float gate, float up)
{
    if constexpr (GATE == 1)
        return gate / (1.0f + expf(-gate)) * up;
    else if constexpr (GATE == 2)
        return 0.5f * gate * (1.0f + erff(gate * 0.70710678118654752f)) * up;
    else if constexpr (GATE == 3) {
        float inner = 0.79788456080286536f * (gate + 0.044715f * gate * gate * gate);
        return 0.5f * gate * (1.0f + tanhf(inner)) * up;
    } else
        return gate;
}

// That of gpt-oss; comparisons keep NaN.
DEVICE float gated_clamped(float gate, float up, float limit, float slope)
{
    const float g = gate > limit ? limit : gate;
    const float u = up > limit ? limit : up < -limit ? -limit : up;
    const float falls = expf(-slope * g);
    return (falls == bits_float(0x7f800000u) ? 0.0f : g / (1.0f + falls)) * (u + 1.0f);
}

#endif
