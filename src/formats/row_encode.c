// SPDX-License-Identifier: MIT
#define WEFT__ENCODERS
#include "src/formats/encode.h"
#include "src/formats/row.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    static void encode_##ID(const float *x, int64_t cols, void *row)                               \
    {                                                                                              \
        weft__block_##ID *block = row;                                                             \
        for (int64_t i = 0; i < cols; i += (block_elems))                                          \
            weft__encode_##ID(x + i, NULL, block++);                                               \
    }
#include <weft/formats.def>
#undef WEFT_FORMAT

weft__row_encode_fn *weft__row_encoder(weft_dtype dtype)
{
    switch (dtype) {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    case WEFT_##ID:                                                                                \
        return encode_##ID;
#include <weft/formats.def>
#undef WEFT_FORMAT
    case WEFT_DTYPE_NONE: break;
    }
    return NULL;
}

// The weight of an element: what its column matters, and more where the number is large.
enum { WEIGHT_COLS = 256 };

static void weigh(const float *x, const float *importance, int count, float *weights)
{
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    float twice_mean = 2 * sum / (float)count;
    for (int i = 0; i < count; i++) {
        float weight = sqrtf(twice_mean + x[i] * x[i]) * (importance ? importance[i] : 1);
        weights[i] = isfinite(weight) && weight > 1e-30f ? weight : 1e-30f;
    }
}

_Static_assert(WEIGHT_COLS % WEFT__MAX_BLOCK_ELEMS == 0, "a span holds whole blocks");

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    static void search_##ID(const float *x, const float *importance, int64_t cols, void *row)      \
    {                                                                                              \
        weft__block_##ID *block = row;                                                             \
        float weights[WEIGHT_COLS];                                                                \
        for (int64_t i = 0; i < cols; i += (block_elems)) {                                        \
            int64_t left = cols - i;                                                               \
            if (i % WEIGHT_COLS == 0)                                                              \
                weigh(x + i, importance ? importance + i : NULL,                                   \
                      (int)(left < WEIGHT_COLS ? left : WEIGHT_COLS), weights);                    \
            weft__encode_##ID(x + i, weights + i % WEIGHT_COLS, block++);                          \
        }                                                                                          \
    }
#include <weft/formats.def>
#undef WEFT_FORMAT

weft__row_search_fn *weft__row_searcher(weft_dtype dtype)
{
    switch (dtype) {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    case WEFT_##ID:                                                                                \
        return search_##ID;
#include <weft/formats.def>
#undef WEFT_FORMAT
    case WEFT_DTYPE_NONE: break;
    }
    return NULL;
}
