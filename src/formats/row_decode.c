// SPDX-License-Identifier: MIT
#include <stddef.h>

#include "src/formats/formats.h"
#include "src/formats/row.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    static void decode_##ID(const void *row, int64_t cols, float *y)                               \
    {                                                                                              \
        const weft__block_##ID *block = row;                                                       \
        for (int64_t i = 0; i < cols; i += (block_elems))                                          \
            weft__decode_##ID(block++, y + i);                                                     \
    }
#include <weft/formats.def>
#undef WEFT_FORMAT

weft__row_decode_fn *weft__row_decoder(weft_dtype dtype)
{
    switch (dtype) {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    case WEFT_##ID:                                                                                \
        return decode_##ID;
#include <weft/formats.def>
#undef WEFT_FORMAT
    case WEFT_DTYPE_NONE: break;
    }
    return NULL;
}

size_t weft__row_alignment(weft_dtype dtype)
{
    switch (dtype) {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    case WEFT_##ID:                                                                                \
        return _Alignof(weft__block_##ID);
#include <weft/formats.def>
#undef WEFT_FORMAT
    case WEFT_DTYPE_NONE: break;
    }
    return 0;
}

void weft__row_apply_planes(const struct weft__row_planes *planes, int64_t cols, float *y)
{
    weft__row_decode_fn *decode = weft__row_decoder(planes->scale_dtype);
    int64_t bytes = weft_dtype_block_bytes(planes->scale_dtype);
    for (int64_t first = 0, g = 0; first < cols; first += planes->scale_elems, g++) {
        int64_t last = cols - first < planes->scale_elems ? cols : first + planes->scale_elems;
        float scale = 1, bias = 0;
        if (planes->scales)
            decode((const char *)planes->scales + g * bytes, 1, &scale);
        if (planes->biases)
            decode((const char *)planes->biases + g * bytes, 1, &bias);
        for (int64_t i = first; i < last; i++) {
            y[i] = planes->scales ? y[i] * scale : y[i];
            y[i] = planes->biases ? y[i] + bias : y[i];
            y[i] = planes->global_scale != 1 ? y[i] * planes->global_scale : y[i];
        }
    }
}
