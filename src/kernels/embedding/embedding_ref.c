// SPDX-License-Identifier: MIT
#include "src/formats/row.h"
#include "src/kernels/element.h"
#include "src/kernels/embedding/embedding_kernel.h"

// A row of the table, from column `first` on.
struct piece {
    const struct weft__embedding_launch *launch;
    const weft_embedding_args *args;
    int64_t row, first, count;
};

static void apply_planes(const struct piece *p, float *y)
{
    const struct weft__embedding_launch *launch = p->launch;
    int64_t row = p->row / launch->scale_rows * p->args->scale_stride;
    for (int64_t i = 0; i < p->count; i++) {
        int64_t at = row + (p->first + i) / launch->scale_cols;
        y[i] *= weft__element_load(p->args->scales, launch->scale_dtype, at);
        if (p->args->biases)
            y[i] += weft__element_load(p->args->biases, launch->scale_dtype, at);
    }
}

static void decode_scaled(const struct piece *p, const char *from, float *y,
                          weft__row_decode_fn *decode)
{
    decode(from, p->count, y);
    if (p->launch->scale_dtype != WEFT_DTYPE_NONE)
        apply_planes(p, y);
    for (int64_t i = 0; p->launch->scale != 1 && i < p->count; i++)
        y[i] *= p->launch->scale;
}

// A piece is a whole number of blocks of every format. residual may be NULL.
static void embed_pieces(struct piece p, const char *from, const void *residual, void *y,
                         weft__row_decode_fn *decode)
{
    enum { PIECE = 256 };
    float wide[PIECE];
    int64_t dim = p.count;
    for (; p.first < dim; p.first += PIECE) {
        p.count = dim - p.first < PIECE ? dim - p.first : PIECE;
        decode_scaled(&p, from, wide, decode);
        for (int64_t i = 0; residual && i < p.count; i++)
            wide[i] += weft__element_load(residual, p.launch->y_dtype, p.first + i);
        weft__elements_narrow(wide, p.count, weft__element_to(y, p.launch->y_dtype, p.first),
                              p.launch->y_dtype);
        from += p.launch->piece_bytes;
    }
}

static void embed(const struct weft__embedding_launch *launch, const weft_embedding_args *args,
                  int64_t token0, int64_t token1, weft__row_decode_fn *decode)
{
    for (int64_t token = token0; token < token1; token++) {
        struct piece p = {launch, args, args->ids[token], 0, launch->dim};
        const char *from = (const char *)args->table + p.row * args->table_stride_bytes;
        void *y = weft__element_to(args->y, launch->y_dtype, token * args->y_stride);
        const void *residual = args->residual ? weft__element_at(args->residual, launch->y_dtype,
                                                                 token * args->y_stride)
                                              : NULL;
        if (launch->y_dtype == WEFT_F32 && !residual)
            decode_scaled(&p, from, y, decode);
        else
            embed_pieces(p, from, residual, y, decode);
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
