// SPDX-License-Identifier: MIT
// 32 numbers to int8 with one scale, a warp, a number a lane. As all quantisers of linear do it:
//   scale = a / 127, a = max |x|, NaN if there is one; q = x * (127 / a) rounded to nearest even, 0 where
//   a < 2^-120 or a is not finite.
#ifndef WEFT_KERNELS_LINEAR_ROUNDING_CUH
#define WEFT_KERNELS_LINEAR_ROUNDING_CUH

#include "src/kernels/cuda/warp.cuh"

// The sums of squares of a rounded row of `cols` columns.
DEVICE float *round_squares(uint8_t *row, int32_t cols)
{
    return (float *)(row + (cols + 63) / 64 * 80);
}

// Stores group `unit` of a rounded row of `cols` columns (linear_device.h).
DEVICE void round_group(uint8_t *row, int32_t cols, int32_t unit, int32_t lane, float x)
{
    uint8_t *meta = row + (cols + 63) / 64 * 64;
    float largest = bits_float(warp_max_bits(float_bits(x) & 0x7fffffffu, 32));
    float inverse =
        largest >= 0x1p-120f && largest < bits_float(0x7f800000u) ? 127.0f / largest : 0.0f;
    int32_t q = inverse > 0 ? __float2int_rn(x * inverse) : 0;
    uint32_t word = ((uint32_t)q & 255u) << 8 * (lane & 3);
    word |= __shfl_xor_sync(0xffffffffu, word, 1);
    word |= __shfl_xor_sync(0xffffffffu, word, 2);
    int32_t sum = warp_sum_int(q, 16), other = __shfl_xor_sync(0xffffffffu, sum, 16);
    if (lane % 4 == 0)
        *(uint32_t *)(row + unit / 2 * 64 + lane % 16 / 4 * 16 + unit % 2 * 8 + lane / 16 * 4) =
            word;
    if (lane == 0)
        *(uint2 *)(meta + unit * 8) = make_uint2(float_bits(largest / 127.0f),
                                                 ((uint32_t)sum & 0xffffu) | (uint32_t)other << 16);
}

#endif
