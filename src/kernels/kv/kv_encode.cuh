// SPDX-License-Identifier: MIT
// Numbers into the formats of a cache, as the encoders of src/formats/ round them: an element, or 32 to a block
// that has its scale. FORMAT is a value of weft_dtype. To the bit as on the CPU, where the text is compiled
// without contraction.
#ifndef WEFT_KERNELS_KV_ENCODE_CUH
#define WEFT_KERNELS_KV_ENCODE_CUH

#include "src/formats/formats.h"
#include "src/kernels/cuda/elements.cuh"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes) FORMAT_##ID = value,
enum {
#include <weft/formats.def>
};
#undef WEFT_FORMAT

// 1 / scale, 0 where that is not finite.
DEVICE float inverse_of(float scale)
{
    const float inverse = 1.0f / scale;
    return fabsf(inverse) < bits_float(0x7f800000u) ? inverse : 0.0f;
}

// Nearest integer, ties to even, in [low, high]; NaN gives low.
DEVICE int32_t nearest(float value, int32_t low, int32_t high)
{
    return (int32_t)rintf(fminf(fmaxf(value, (float)low), (float)high));
}

// The number of largest magnitude, with its sign; the first of equals.
DEVICE float largest_signed(const float *x)
{
    float largest = 0;
    for (int32_t i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    return largest;
}

// As those of src/formats/encode_32.c: of both zeros the second.
DEVICE float lesser(float a, float b)
{
    return b <= a || a != a ? b : a;
}

DEVICE float greater(float a, float b)
{
    return b >= a || a != a ? b : a;
}

// Scale and lowest number of `steps` steps over all 32.
DEVICE float span_of(const float *x, int32_t steps, float *low)
{
    float high = *low = x[0];
    for (int32_t i = 1; i < 32; i++)
        *low = lesser(*low, x[i]), high = greater(high, x[i]);
    return (high - *low) / (float)steps;
}

DEVICE void put_half(uint8_t *to, float value)
{
    const uint32_t half = floats_f16x2(value, 0);
    to[0] = (uint8_t)half, to[1] = (uint8_t)(half >> 8);
}

// Four bits of element i and, behind `high`, the fifth.
DEVICE void put_code(uint8_t *low, uint8_t *high, int32_t i, int32_t code)
{
    low[i % 16] |= (uint8_t)((code & 15) << (i < 16 ? 0 : 4));
    if (high)
        high[i / 8] |= (uint8_t)(code >> 4 << i % 8);
}

DEVICE int32_t nearest_level(const int8_t levels[16], float value)
{
    int32_t best = 0;
    for (int32_t n = 1; n < 16; n++)
        if (fabsf(value - (float)levels[n]) < fabsf(value - (float)levels[best]))
            best = n;
    return best;
}

// 32 numbers into a block of BYTES bytes.
template <int FORMAT, int BYTES> DEVICE void encode_block(const float *x, uint8_t *to)
{
    for (int32_t i = 0; i < BYTES; i++)
        to[i] = 0;
    if constexpr (FORMAT == FORMAT_Q8_0) {
        const float d = fabsf(largest_signed(x)) / 127, inverse = inverse_of(d);
        put_half(to, d);
        for (int32_t i = 0; i < 32; i++)
            to[2 + i] = (uint8_t)nearest(roundf(x[i] * inverse), -127, 127);
    } else if constexpr (FORMAT == FORMAT_Q4_0 || FORMAT == FORMAT_Q5_0) {
        const int32_t middle = FORMAT == FORMAT_Q4_0 ? 8 : 16;
        const float d = largest_signed(x) / (float)-middle, inverse = inverse_of(d);
        put_half(to, d);
        for (int32_t i = 0; i < 32; i++)
            put_code(to + (FORMAT == FORMAT_Q4_0 ? 2 : 6), FORMAT == FORMAT_Q4_0 ? NULL : to + 2, i,
                     nearest(truncf(x[i] * inverse + ((float)middle + 0.5f)), 0, 2 * middle - 1));
    } else if constexpr (FORMAT == FORMAT_Q4_1 || FORMAT == FORMAT_Q5_1) {
        const int32_t steps = FORMAT == FORMAT_Q4_1 ? 15 : 31;
        float low;
        const float d = span_of(x, steps, &low), inverse = inverse_of(d);
        put_half(to, d), put_half(to + 2, low);
        for (int32_t i = 0; i < 32; i++)
            put_code(to + (FORMAT == FORMAT_Q4_1 ? 4 : 8), FORMAT == FORMAT_Q4_1 ? NULL : to + 4, i,
                     nearest(truncf((x[i] - low) * inverse + 0.5f), 0, steps));
    } else if constexpr (FORMAT == FORMAT_IQ4_NL) {
        const float d = largest_signed(x) / (float)weft__iq4_levels[0];
        put_half(to, d);
        const float inverse = inverse_of(f16_float(to[0] | (uint32_t)to[1] << 8));
        for (int32_t i = 0; i < 32; i++)
            put_code(to + 2, NULL, i, nearest_level(weft__iq4_levels, x[i] * inverse));
    }
}

// One number.
template <int FORMAT> DEVICE void encode_element(float x, void *to)
{
    if constexpr (FORMAT == FORMAT_INT8)
        *(int8_t *)to = (int8_t)nearest(x, -128, 127);
    else if constexpr (FORMAT == FORMAT_FP8_E4M3)
        *(uint8_t *)to = weft__fp8_e4m3_from_f32(x);
    else if constexpr (FORMAT == FORMAT_FP8_E5M2)
        *(uint8_t *)to = weft__fp8_e5m2_from_f32(x);
    else if constexpr (FORMAT <= DTYPE_BF16)
        set_element<FORMAT>(to, 0, x);
}

#endif
