// SPDX-License-Identifier: MIT
#include "src/formats/row.h"
#include "src/kernels/embedding/embedding_kernel.h"

static void embed(const struct weft__embedding_launch *launch, const weft_embedding_args *args,
                  int64_t token0, int64_t token1, weft__row_decode_fn *decode)
{
    for (int64_t token = token0; token < token1; token++) {
        const char *row = (const char *)args->table + args->ids[token] * args->table_stride_bytes;
        float *y = args->y + token * args->y_stride;
        decode(row, launch->dim, y);
        for (int64_t i = 0; launch->scale != 1 && i < launch->dim; i++)
            y[i] *= launch->scale;
    }
}

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    weft__embedding_fn weft__embedding_##ID##_ref;                                                 \
    void weft__embedding_##ID##_ref(const struct weft__embedding_launch *launch,                   \
                                    const weft_embedding_args *args, int64_t token0,               \
                                    int64_t token1)                                                \
    {                                                                                              \
        embed(launch, args, token0, token1, weft__row_decoder(WEFT_##ID));                         \
    }
#include <weft/formats.def>
#undef WEFT_FORMAT
