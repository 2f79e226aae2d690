// SPDX-License-Identifier: MIT
// Rows of X to bf16 as the tiles of linear_bf16_amx.c take them.
#include "src/kernels/cpu/amx.h"
#include "src/kernels/linear/linear_bf16_avx512.h"

enum {
    STEP = 32,              // columns of a tile
    TILE_ELEMS = 16 * STEP, // bf16 of a tile
    AHEAD = 4 * STEP,       // columns of X that are asked for ahead
};

// Rows [m, m + rows) of one sixteen: its tiles of 32 columns lie one after another, in a tile pair beside pair,
// in a pair row beside row.
WEFT__INLINE void narrow_sixteen(const void *x, weft_dtype dtype, int64_t at, int64_t x_stride,
                                 int32_t rows, int64_t cols, int32_t m, uint16_t *to,
                                 int64_t stride)
{
    uint16_t *tile = to + m / 16 * 16 * stride;
    for (int64_t i = 0; i < cols; i += STEP, tile += TILE_ELEMS) {
        _Alignas(64) uint16_t row[16][STEP] = {{0}};
        vf32 pairs[16];
        for (int r = 0; r < rows; r++) {
            const int64_t from = at + r * x_stride + i, bytes = dtype == WEFT_BF16 ? 2 : 4;
            const char *ahead = (const char *)x + bytes * (from + AHEAD);
            _mm_prefetch(ahead, _MM_HINT_T0);
            if (dtype != WEFT_BF16)
                _mm_prefetch(ahead + 64, _MM_HINT_T0);
            _mm512_store_si512(row[r], bf16_row(x, dtype, from, cols - i));
        }
        vf32_load_transposed((const float *)(const void *)row, 16, pairs);
        for (int p = 0; p < 16; p++)
            vf32_store_n((float *)(void *)(tile + p * STEP) + m % 16, pairs[p], rows);
    }
}

weft__narrow_fn weft__linear_narrow_amx;
void weft__linear_narrow_amx(const void *x, weft_dtype dtype, int64_t x_stride, int32_t rows,
                             int64_t cols, int32_t m, uint16_t *to, int64_t stride)
{
    int64_t at = 0;
    for (const int32_t end = m + rows; m < end;) {
        const int32_t room = 16 - m % 16, n = room < end - m ? room : end - m;
        if (dtype == WEFT_BF16)
            narrow_sixteen(x, WEFT_BF16, at, x_stride, n, cols, m, to, stride);
        else
            narrow_sixteen(x, WEFT_F32, at, x_stride, n, cols, m, to, stride);
        m += n;
        at += n * x_stride;
    }
}
