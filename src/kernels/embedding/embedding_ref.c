// SPDX-License-Identifier: MIT
#include "src/formats/row.h"
#include "src/kernels/element.h"
#include "src/kernels/embedding/embedding_kernel.h"

static void decode_scaled(const struct weft__embedding_launch *launch, const char *row, int64_t dim,
                          float *y, weft__row_decode_fn *decode)
{
    decode(row, dim, y);
    for (int64_t i = 0; launch->scale != 1 && i < dim; i++)
        y[i] *= launch->scale;
}

// A piece is a whole number of blocks of every format.
static void embed_narrow(const struct weft__embedding_launch *launch, const char *row, void *y,
                         weft__row_decode_fn *decode)
{
    enum { PIECE = 256 };
    float wide[PIECE];
    for (int64_t i = 0; i < launch->dim; i += PIECE) {
        int64_t count = launch->dim - i < PIECE ? launch->dim - i : PIECE;
        decode_scaled(launch, row, count, wide, decode);
        weft__elements_narrow(wide, count, weft__element_to(y, launch->y_dtype, i),
                              launch->y_dtype);
        row += launch->piece_bytes;
    }
}

static void embed(const struct weft__embedding_launch *launch, const weft_embedding_args *args,
                  int64_t token0, int64_t token1, weft__row_decode_fn *decode)
{
    for (int64_t token = token0; token < token1; token++) {
        const char *row = (const char *)args->table + args->ids[token] * args->table_stride_bytes;
        void *y = weft__element_to(args->y, launch->y_dtype, token * args->y_stride);
        if (launch->y_dtype == WEFT_F32)
            decode_scaled(launch, row, launch->dim, y, decode);
        else
            embed_narrow(launch, row, y, decode);
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
