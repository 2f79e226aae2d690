// SPDX-License-Identifier: MIT
#include "src/base/half.h"
#include "src/formats/q4_0.h"
#include "src/formats/q4_k.h"
#include "src/formats/q6_k.h"
#include "src/formats/q8_0.h"
#include "src/formats/row.h"

static void decode_F32(const void *row, int64_t cols, float *y)
{
    memcpy(y, row, (size_t)cols * sizeof *y);
}

static void decode_F16(const void *row, int64_t cols, float *y)
{
    const uint16_t *x = row;
    for (int64_t i = 0; i < cols; i++)
        y[i] = weft__f16_to_f32(x[i]);
}

static void decode_BF16(const void *row, int64_t cols, float *y)
{
    const uint16_t *x = row;
    for (int64_t i = 0; i < cols; i++)
        y[i] = weft__bf16_to_f32(x[i]);
}

#define DECODE_BLOCKS(id, name, elems)                                                             \
    static void decode_##id(const void *row, int64_t cols, float *y)                               \
    {                                                                                              \
        const struct weft__##name *block = row;                                                    \
        for (int64_t i = 0; i < cols; i += elems)                                                  \
            weft__##name##_decode(block++, y + i);                                                 \
    }

DECODE_BLOCKS(Q8_0, q8_0, 32)
DECODE_BLOCKS(Q4_0, q4_0, 32)
DECODE_BLOCKS(Q4_K, q4_k, 256)
DECODE_BLOCKS(Q6_K, q6_k, 256)

weft__row_decode_fn *weft__row_decoder(weft_dtype dtype)
{
    switch (dtype) {
#define DECODER(id, value, name, block_elems, block_bytes)                                         \
    case WEFT_##id: return decode_##id;
        WEFT_DTYPE_MAP(DECODER)
    case WEFT_DTYPE_NONE: break;
    }
    return NULL;
}
