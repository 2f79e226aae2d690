// SPDX-License-Identifier: MIT
// Linear kernels, written to be read: decode a block, multiply, add in double.
#include <math.h>

#include "src/formats/formats.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/linear/linear_round.h"

// What vdpbf16ps makes of a number that was rounded to bf16.
static float from_bf16(uint16_t half)
{
    float value = weft__bf16_to_f32(half);
    return fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}

weft__narrow_fn weft__linear_narrow_ref;
void weft__linear_narrow_ref(const void *x, weft_dtype dtype, int64_t x_stride, int32_t rows,
                             int64_t cols, int32_t m, uint16_t *to, int64_t stride)
{
    to += m * stride;
    for (int32_t r = 0; r < rows; r++, to += stride)
        for (int64_t i = 0; i < cols; i++) {
            const float value = weft__element_load(x, dtype, r * x_stride + i);
            to[i] = weft__bf16_from_f32(fabsf(value) < 0x1p-126f ? copysignf(0, value) : value);
        }
}

// The activation i of batch row m as the kernel uses it.
static double activation(const struct weft__linear_call *call, enum weft__linear_acts acts,
                         int32_t m, int64_t i)
{
    if (acts == WEFT__ACTS_bf16)
        return from_bf16(call->x_bf16[m * call->x_bf16_stride + i]);
    if (acts == WEFT__ACTS_f32)
        return call->x[m * call->x_stride + i];
    struct weft__rounded_row x = weft__rounded_row(&call->acts, m);
    return (double)x.q[i] * x.scale[i / 32];
}

// Applies what lies beside the codes of columns [k, k + count) of a row.
static void apply_planes(const struct weft__linear_planes *p, int64_t row, int64_t k, int count,
                         float *w)
{
    for (int i = 0; i < count; i++) {
        int64_t at = row / p->scale_rows * p->stride + (k + i) / p->scale_cols;
        if (p->scales)
            w[i] *= weft__element_load(p->scales, p->dtype, at);
        if (p->biases)
            w[i] += weft__element_load(p->biases, p->dtype, at);
    }
}

typedef void decode_fn(const void *block, float *y);

static void linear(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                   enum weft__linear_acts acts, decode_fn *decode, int block_elems, int block_bytes)
{
    for (int64_t row = row0; row < row1; row++)
        for (int32_t m = 0; m < call->batch; m++) {
            const unsigned char *block = call->weight + row * call->weight_stride_bytes;
            double dot = 0;
            for (int64_t k = 0; k < call->cols; k += block_elems, block += block_bytes) {
                float w[WEFT__MAX_BLOCK_ELEMS];
                decode(block, w);
                if (call->planes)
                    apply_planes(call->planes, row, k, block_elems, w);
                if (acts == WEFT__ACTS_bf16)
                    w[0] = from_bf16(weft__bf16_from_f32(w[0]));
                for (int i = 0; i < block_elems; i++)
                    dot += w[i] * activation(call, acts, m, k + i);
            }
            weft__linear_store(call, m, row, (float)dot);
        }
}

#define LINEAR_REF(ID, acts, block_elems, block_bytes)                                             \
    weft__linear_fn weft__linear_##ID##_##acts##_ref;                                              \
    void weft__linear_##ID##_##acts##_ref(const struct weft__linear_call *call, int64_t row0,      \
                                          int64_t row1)                                            \
    {                                                                                              \
        linear(call, row0, row1, WEFT__ACTS_##acts, weft__decode_##ID, block_elems, block_bytes);  \
    }

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    LINEAR_REF(ID, f32, block_elems, block_bytes)                                                  \
    LINEAR_REF(ID, q8, block_elems, block_bytes)
#include <weft/formats.def>
#undef WEFT_FORMAT
LINEAR_REF(F32, bf16, 1, 4)
LINEAR_REF(F16, bf16, 1, 2)
LINEAR_REF(BF16, bf16, 1, 2)

WEFT__INLINE float round_group(const float *x, int8_t *q, int32_t sum[2])
{
    uint32_t largest_bits = 0; // of |x|, which sort like the numbers, NaN above all
    for (int i = 0; i < 32; i++) {
        uint32_t bits = weft__f32_bits(x[i]) & 0x7fffffffu;
        largest_bits = bits > largest_bits ? bits : largest_bits;
    }
    float largest = weft__f32_from_bits(largest_bits);
    float inverse = weft__round_inverse(largest);
    for (int i = 0; i < 32; i++) {
        float scaled = x[i] * inverse;
        int8_t rounded = isnan(scaled) ? 0 : (int8_t)lrintf(scaled);
        q[i] = rounded;
        sum[i / 16] += rounded;
    }
    return largest / 127.0f;
}

weft__round_fn weft__round_ref;
void weft__round_ref(const struct weft__rounded_row *to, int64_t k, int64_t end, const float *x,
                     int64_t n, bool few)
{
    weft__round_columns(to, k, end, x, n, few, round_group);
}
