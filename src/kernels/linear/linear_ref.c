// SPDX-License-Identifier: MIT
// Linear kernels, written to be read: decode a block, multiply, add in double.
#include <math.h>

#include "src/base/half.h"
#include "src/formats/q4_0.h"
#include "src/formats/q4_k.h"
#include "src/formats/q6_k.h"
#include "src/formats/q8_0.h"
#include "src/kernels/linear/linear_quantize.h"

typedef void decode_fn(const unsigned char *block, float *y);

static void decode_F32(const unsigned char *block, float *y)
{
    memcpy(y, block, sizeof *y);
}

static void decode_F16(const unsigned char *block, float *y)
{
    uint16_t half;
    memcpy(&half, block, sizeof half);
    *y = weft__f16_to_f32(half);
}

static void decode_BF16(const unsigned char *block, float *y)
{
    uint16_t half;
    memcpy(&half, block, sizeof half);
    *y = weft__bf16_to_f32(half);
}

static void decode_Q8_0(const unsigned char *block, float *y)
{
    weft__q8_0_decode((const void *)block, y);
}

static void decode_Q4_0(const unsigned char *block, float *y)
{
    weft__q4_0_decode((const void *)block, y);
}

static void decode_Q4_K(const unsigned char *block, float *y)
{
    weft__q4_k_decode((const void *)block, y);
}

static void decode_Q6_K(const unsigned char *block, float *y)
{
    weft__q6_k_decode((const void *)block, y);
}

// The activation i of batch row m as the kernel uses it.
static double activation(const struct weft__linear_call *call, enum weft__linear_acts acts,
                         int32_t m, int64_t i)
{
    if (acts == WEFT__ACTS_f32)
        return call->x[m * call->x_stride + i];
    int64_t at = m * call->acts.stride + i;
    return (double)call->acts.q[at] * call->acts.scale[at / 32];
}

static void linear(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                   enum weft__linear_acts acts, decode_fn *decode, int block_elems, int block_bytes)
{
    for (int64_t row = row0; row < row1; row++)
        for (int32_t m = 0; m < call->batch; m++) {
            const unsigned char *block = call->weight + row * call->weight_stride_bytes;
            double dot = 0;
            for (int64_t k = 0; k < call->cols; k += block_elems, block += block_bytes) {
                float w[256];
                decode(block, w);
                for (int i = 0; i < block_elems; i++)
                    dot += w[i] * activation(call, acts, m, k + i);
            }
            weft__linear_store(call, m, row, (float)dot);
        }
}

#define LINEAR_REF(weight, acts, block_elems, block_bytes)                                         \
    weft__linear_fn weft__linear_##weight##_##acts##_ref;                                          \
    void weft__linear_##weight##_##acts##_ref(const struct weft__linear_call *call, int64_t row0,  \
                                              int64_t row1)                                        \
    {                                                                                              \
        linear(call, row0, row1, WEFT__ACTS_##acts, decode_##weight, block_elems, block_bytes);    \
    }

LINEAR_REF(F32, f32, 1, 4)
LINEAR_REF(F16, f32, 1, 2)
LINEAR_REF(BF16, f32, 1, 2)
LINEAR_REF(Q8_0, f32, 32, 34)
LINEAR_REF(Q4_0, f32, 32, 18)
LINEAR_REF(Q4_K, f32, 256, 144)
LINEAR_REF(Q6_K, f32, 256, 210)
LINEAR_REF(Q8_0, q8, 32, 34)
LINEAR_REF(Q4_0, q8, 32, 18)
LINEAR_REF(Q4_K, q8, 256, 144)
LINEAR_REF(Q6_K, q8, 256, 210)

WEFT__INLINE float round_group(const float *x, int8_t *q[2], int32_t sum[2])
{
    uint32_t largest_bits = 0; // of |x|, which sort like the numbers, NaN above all
    for (int i = 0; i < 32; i++) {
        uint32_t bits = weft__f32_bits(x[i]) & 0x7fffffffu;
        largest_bits = bits > largest_bits ? bits : largest_bits;
    }
    float largest = weft__f32_from_bits(largest_bits);
    float inverse = weft__q8_inverse(largest);
    for (int i = 0; i < 32; i++) {
        float scaled = x[i] * inverse;
        int8_t rounded = isnan(scaled) ? 0 : (int8_t)lrintf(scaled);
        q[i / 16][i % 16] = rounded;
        sum[i / 16] += rounded;
    }
    return largest / 127.0f;
}

weft__linear_quantize_fn weft__linear_quantize_ref;
void weft__linear_quantize_ref(const struct weft__linear_call *call, int32_t row0, int32_t row1)
{
    weft__q8_quantize_rows(call, row0, row1, round_group);
}
