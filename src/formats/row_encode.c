// SPDX-License-Identifier: MIT
#include "src/formats/encode.h"
#include "src/formats/row.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    static void encode_##ID(const float *x, int64_t cols, void *row)                               \
    {                                                                                              \
        weft__block_##ID *block = row;                                                             \
        for (int64_t i = 0; i < cols; i += (block_elems))                                          \
            weft__encode_##ID(x + i, block++);                                                     \
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
