// SPDX-License-Identifier: MIT
#include <math.h>

#include "src/base/half.h"
#include "src/formats/q4_0.h"
#include "src/formats/q4_k.h"
#include "src/formats/q6_k.h"
#include "src/formats/q8_0.h"
#include "src/formats/row.h"

static void encode_F32(const float *x, int64_t cols, void *row)
{
    memcpy(row, x, (size_t)cols * sizeof *x);
}

static void encode_F16(const float *x, int64_t cols, void *row)
{
    uint16_t *y = row;
    for (int64_t i = 0; i < cols; i++)
        y[i] = weft__f16_from_f32(x[i]);
}

static void encode_BF16(const float *x, int64_t cols, void *row)
{
    uint16_t *y = row;
    for (int64_t i = 0; i < cols; i++)
        y[i] = weft__bf16_from_f32(x[i]);
}

static float inverse(float scale)
{
    return scale != 0 ? 1 / scale : 0;
}

// Nearest integer, ties to even, in [low, high]; NaN gives low.
static int nearest(float value, int low, int high)
{
    return (int)lrintf(fminf(fmaxf(value, (float)low), (float)high));
}

static float largest_magnitude(const float *x, int count)
{
    float largest = 0;
    for (int i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

// d = max |x| / 127, quotients rounded half away from zero.
static void block_Q8_0(const float *x, struct weft__q8_0 *block)
{
    float d = largest_magnitude(x, 32) / 127;
    block->d = weft__f16_from_f32(d);
    for (int i = 0; i < 32; i++)
        block->q[i] = (int8_t)nearest(roundf(x[i] * inverse(d)), -127, 127);
}

// The value of largest magnitude becomes exactly -8 d, so d may be negative.
static void block_Q4_0(const float *x, struct weft__q4_0 *block)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(largest))
            largest = x[i];
    float d = largest / -8;
    block->d = weft__f16_from_f32(d);
    for (int i = 0; i < 16; i++) {
        int low = nearest(truncf(x[i] * inverse(d) + 8.5f), 0, 15);
        int high = nearest(truncf(x[i + 16] * inverse(d) + 8.5f), 0, 15);
        block->q[i] = (uint8_t)(low | high << 4);
    }
}

static void q4_k_put_scale_min(uint8_t scales[12], int j, int sc, int m)
{
    if (j < 4) {
        scales[j] = (uint8_t)(scales[j] | sc);
        scales[j + 4] = (uint8_t)(scales[j + 4] | m);
    } else {
        scales[j + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
        scales[j - 4] = (uint8_t)(scales[j - 4] | (sc >> 4) << 6);
        scales[j] = (uint8_t)(scales[j] | (m >> 4) << 6);
    }
}

// Each group of 32 spans [min(0, smallest), largest] in 15 steps; step and minimum are rounded to 6 bits
// of the block's largest.
static void block_Q4_K(const float *x, struct weft__q4_k *block)
{
    float low[8] = {0}, step[8], largest_step = 0, largest_low = 0;
    for (int j = 0; j < 8; j++) {
        float high = x[32 * j];
        for (int i = 0; i < 32; i++) {
            low[j] = fminf(low[j], x[32 * j + i]);
            high = fmaxf(high, x[32 * j + i]);
        }
        step[j] = fmaxf(high - low[j], 0) / 15;
        largest_step = fmaxf(largest_step, step[j]);
        largest_low = fmaxf(largest_low, -low[j]);
    }
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(largest_step / 63);
    block->dmin = weft__f16_from_f32(largest_low / 63);
    float d = weft__f16_to_f32(block->d), dmin = weft__f16_to_f32(block->dmin);
    for (int j = 0; j < 8; j++) {
        int sc = nearest(step[j] * inverse(d), 0, 63), m = nearest(-low[j] * inverse(dmin), 0, 63);
        q4_k_put_scale_min(block->scales, j, sc, m);
        float scale = inverse(d * (float)sc);
        for (int i = 0; i < 32; i++) {
            int q = nearest((x[32 * j + i] + dmin * (float)m) * scale, 0, 15);
            uint8_t *byte = &block->q[32 * (j / 2) + i];
            *byte = (uint8_t)(*byte | (j & 1 ? q << 4 : q));
        }
    }
}

// Each group of 16 has the scale max |x| / 31, rounded to 7 bits of the block's largest.
static void block_Q6_K(const float *x, struct weft__q6_k *block)
{
    float scale[16], largest = 0;
    for (int j = 0; j < 16; j++) {
        scale[j] = largest_magnitude(x + 16 * j, 16) / 31;
        largest = fmaxf(largest, scale[j]);
    }
    memset(block, 0, sizeof *block);
    block->d = weft__f16_from_f32(largest / 127);
    float d = weft__f16_to_f32(block->d);
    for (int j = 0; j < 16; j++)
        block->sc[j] = (int8_t)nearest(scale[j] * inverse(d), 0, 127);
    for (int i = 0; i < 256; i++) {
        int q = nearest(x[i] * inverse(d * (float)block->sc[i / 16]), -32, 31) + 32;
        int n = i / 128, g = i % 128 / 32, l = i % 32;
        uint8_t *low = &block->ql[64 * n + 32 * (g & 1) + l], *high = &block->qh[32 * n + l];
        *low = (uint8_t)(*low | (g < 2 ? q & 15 : (q & 15) << 4));
        *high = (uint8_t)(*high | (q >> 4) << 2 * g);
    }
}

#define ENCODE_BLOCKS(id, name, elems)                                                             \
    static void encode_##id(const float *x, int64_t cols, void *row)                               \
    {                                                                                              \
        struct weft__##name *block = row;                                                          \
        for (int64_t i = 0; i < cols; i += elems)                                                  \
            block_##id(x + i, block++);                                                            \
    }

ENCODE_BLOCKS(Q8_0, q8_0, 32)
ENCODE_BLOCKS(Q4_0, q4_0, 32)
ENCODE_BLOCKS(Q4_K, q4_k, 256)
ENCODE_BLOCKS(Q6_K, q6_k, 256)

weft__row_encode_fn *weft__row_encoder(weft_dtype dtype)
{
    switch (dtype) {
#define ENCODER(id, value, name, block_elems, block_bytes)                                         \
    case WEFT_##id: return encode_##id;
        WEFT_DTYPE_MAP(ENCODER)
    case WEFT_DTYPE_NONE: break;
    }
    return NULL;
}
