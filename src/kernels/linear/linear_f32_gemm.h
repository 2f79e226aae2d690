// SPDX-License-Identifier: MIT
// Weights of every format by f32 activations for many rows of X, in the vocabulary of
// src/kernels/cpu/. A panel of rows of W is decoded once per chunk of columns and turned round: a lane
// is a row of W, and a broadcast of x meets a whole panel.
//
//      w[column][vector]    one lane per row, decoded
//      acc[row of X][vector] kept over the chunks
//
// An instruction set defines WEFT__F32_VECTORS, the vectors that make a panel, and includes linear_f32.h
// first.
#ifndef WEFT_KERNELS_LINEAR_F32_GEMM_H
#define WEFT_KERNELS_LINEAR_F32_GEMM_H

#include "src/kernels/linear/linear_store.h"

enum {
    WEFT__F32_PANEL = WEFT__F32_VECTORS * VF32_LANES,
    WEFT__F32_CHUNK = 64,                  // columns of W decoded at a time
    WEFT__F32_BATCH_TILE = 96,             // rows of X that share a decoded panel
    WEFT__F32_STEP = 6,                    // rows of X in registers
    WEFT__F32_FOLD = 64 * WEFT__F32_CHUNK, // columns whose chunks share a sum (linear_kernel.h)
};

struct weft__f32_panel {
    vf32 w[WEFT__F32_CHUNK][WEFT__F32_VECTORS];
    vf32 acc[WEFT__F32_BATCH_TILE][WEFT__F32_VECTORS];
    vf32 total[WEFT__F32_BATCH_TILE][WEFT__F32_VECTORS]; // of FOLD chunks at a time
};

// Columns [k, k + n) of the panel's rows, n up to 32, to w[0] and what follows. Rows past the last
// repeat it and are not stored.
WEFT__INLINE void weft__f32_decode_panel(struct weft__f32_panel *p,
                                         const struct weft__linear_call *call, int64_t row,
                                         int64_t last, int64_t k, int64_t at, int n,
                                         weft__f32_decode_fn *decode)
{
    for (int v = 0; v < WEFT__F32_VECTORS; v++) {
        vf32 w[VF32_LANES][WEFT__F32_PARTS];
        for (int r = 0; r < VF32_LANES; r++) {
            int64_t from = row + v * VF32_LANES + r;
            from = from < last ? from : last;
            const unsigned char *start = call->weight + from * call->weight_stride_bytes;
            if (n == 32)
                decode(start, k, 32, w[r]);
            else
                decode(start, k, n, w[r]);
        }
        WEFT__UNROLL for (int i = 0; i < WEFT__F32_PARTS; i++)
        {
            vf32 square[VF32_LANES];
            WEFT__UNROLL for (int r = 0; r < VF32_LANES; r++)
            {
                square[r] = w[r][i];
            }
            vf32_transpose(square);
            WEFT__UNROLL for (int r = 0; r < VF32_LANES; r++)
            {
                p->w[at + i * VF32_LANES + r][v] = square[r];
            }
        }
    }
}

// A decoded panel by `cols` rows of X; those past the last repeat it. Each chunk has a sum of its own:
// in a single long one small products would drown.
WEFT__INLINE void weft__f32_multiply_chunk(struct weft__f32_panel *p,
                                           const struct weft__linear_call *call, int32_t col,
                                           int32_t last, int64_t at, int64_t k, int64_t columns,
                                           int cols)
{
    const float *x[WEFT__F32_STEP];
    vf32 acc[WEFT__F32_STEP][WEFT__F32_VECTORS];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        x[c] = call->x + (col + c < last ? col + c : last) * call->x_stride + k;
        WEFT__UNROLL for (int v = 0; v < WEFT__F32_VECTORS; v++)
        {
            acc[c][v] = vf32_zero();
        }
    }
    for (int c = 0; c < cols; c++)
        for (int64_t i = 0; i < columns; i += 16)
            __builtin_prefetch(x[c] + cols * call->x_stride + i);
    for (int64_t i = 0; i < columns; i++)
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            vf32 broadcast = vf32_set1(x[c][i]);
            WEFT__UNROLL for (int v = 0; v < WEFT__F32_VECTORS; v++)
            {
                acc[c][v] = vf32_fma(p->w[i][v], broadcast, acc[c][v]);
            }
        }
    WEFT__UNROLL for (int c = 0; c < cols; c++)
        WEFT__UNROLL for (int v = 0; v < WEFT__F32_VECTORS; v++)
    {
        p->acc[at + c][v] = vf32_add(p->acc[at + c][v], acc[c][v]);
    }
}

WEFT__INLINE void weft__f32_store_panel(const struct weft__linear_call *call,
                                        const struct weft__f32_panel *p, int64_t row, int64_t last,
                                        int32_t col, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++) {
        int64_t left = last + 1 - row;
        for (int v = 0; left > 0 && v < WEFT__F32_VECTORS; v++, left -= VF32_LANES)
            weft__linear_store_lanes(call, col + c, row + v * VF32_LANES,
                                     left < VF32_LANES ? (int)left : VF32_LANES, p->total[c][v]);
    }
}

// Adds what acc has to the total and begins anew.
WEFT__INLINE void weft__f32_fold(struct weft__f32_panel *p, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++)
        for (int v = 0; v < WEFT__F32_VECTORS; v++) {
            p->total[c][v] = vf32_add(p->total[c][v], p->acc[c][v]);
            p->acc[c][v] = vf32_zero();
        }
}

// The panel at `row` by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void weft__f32_multiply_panel(const struct weft__linear_call *call, int64_t row,
                                           int64_t last, int32_t col, int32_t cols,
                                           weft__f32_decode_fn *decode)
{
    struct weft__f32_panel p;
    // A step takes up to one row of X more than there are.
    for (int32_t c = 0; c < WEFT__F32_BATCH_TILE && c <= cols; c++)
        for (int v = 0; v < WEFT__F32_VECTORS; v++)
            p.acc[c][v] = p.total[c][v] = vf32_zero();
    for (int64_t k = 0; k < call->cols; k += WEFT__F32_CHUNK) {
        if (k > 0 && k % WEFT__F32_FOLD == 0)
            weft__f32_fold(&p, cols);
        int64_t left = call->cols - k, columns = left < WEFT__F32_CHUNK ? left : WEFT__F32_CHUNK;
        for (int64_t i = 0; i < columns; i += 32)
            weft__f32_decode_panel(&p, call, row, last, k + i, i,
                                   columns - i < 32 ? (int)(columns - i) : 32, decode);
        int32_t c = 0;
        for (; c + 4 < cols; c += 6)
            weft__f32_multiply_chunk(&p, call, col + c, col + cols - 1, c, k, columns, 6);
        for (; c < cols; c += 2)
            weft__f32_multiply_chunk(&p, call, col + c, col + cols - 1, c, k, columns, 2);
    }
    weft__f32_fold(&p, cols);
    weft__f32_store_panel(call, &p, row, last, col, cols);
}

WEFT__INLINE void weft__f32_gemm(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                                 weft__f32_decode_fn *decode)
{
    int32_t tiles = (call->batch + WEFT__F32_BATCH_TILE - 1) / WEFT__F32_BATCH_TILE;
    int32_t tile = (call->batch + tiles - 1) / tiles;
    tile = (tile + WEFT__F32_STEP - 1) / WEFT__F32_STEP * WEFT__F32_STEP;
    for (int32_t col = 0; col < call->batch; col += tile)
        for (int64_t row = row0; row < row1; row += WEFT__F32_PANEL)
            weft__f32_multiply_panel(
                call, row, row + WEFT__F32_PANEL < row1 ? row + WEFT__F32_PANEL - 1 : row1 - 1, col,
                call->batch - col < tile ? call->batch - col : tile, decode);
}

// A few rows of X by rows of W that are no tiles of four, asked for far ahead, from row0 on; the first that it
// leaves. Not inlined: tiles keep their text, and what lies beside four streams its registers.
#define WEFT__LINEAR_F32_FAR(weight, isa, bytes32, part)                                           \
    __attribute__((noinline)) static int64_t weft__linear_##weight##_f32_apart_##isa(              \
        const struct weft__linear_call *call, int64_t row0, int64_t row1)                          \
    {                                                                                              \
        const struct weft__f32_format four = {                                                     \
            weft__f32_decode_##weight, part, bytes32, false, 3072, true};                          \
        return weft__f32_multiply_apart(call, row0, row1, four);                                   \
    }                                                                                              \
    __attribute__((noinline)) static int64_t weft__linear_##weight##_f32_far_##isa(                \
        const struct weft__linear_call *call, int64_t row0, int64_t row1)                          \
    {                                                                                              \
        const struct weft__f32_format far = {                                                      \
            weft__f32_decode_##weight, part, bytes32, false, 8192, false};                         \
        struct weft__f32_format two = far;                                                         \
        two.far_bytes = 4096;                                                                      \
        const int rows = weft__f32_together(call, far);                                            \
        const bool asks = weft__f32_is_far(call, far);                                             \
        if (rows == 2 && call->batch == 1 && call->cols <= WEFT__F32_APART_COLS)                   \
            row0 = weft__linear_##weight##_f32_apart_##isa(call, row0, row1);                      \
        for (; rows == 2 && call->batch == 1 && row0 + 2 <= row1; row0 += 2)                       \
            weft__f32_multiply_tile(call, row0, 2, 0, 1, two);                                     \
        for (; rows && asks && call->batch == 1 && row0 < row1; row0++)                            \
            weft__f32_multiply_tile(call, row0, 1, 0, 1, far);                                     \
        const bool some = (bytes32) <= 64 && rows; /* rows of X */                                 \
        for (; some && rows == 2 && call->batch == 2 && row0 + 2 <= row1; row0 += 2)               \
            weft__f32_multiply_tile(call, row0, 2, 0, 2, two);                                     \
        for (; some && call->batch == 2 && row0 < row1; row0++)                                    \
            weft__f32_multiply_tile(call, row0, 1, 0, 2, far);                                     \
        for (; some && call->batch > 2 && row0 + 2 <= row1; row0 += 2)                             \
            weft__f32_multiply_tile(call, row0, 2, 0, 4, two);                                     \
        return row0;                                                                               \
    }

#define WEFT__LINEAR_F32(weight, isa, bytes32, part)                                               \
    WEFT__LINEAR_F32_FAR(weight, isa, bytes32, part)                                               \
    weft__linear_fn weft__linear_##weight##_f32_##isa;                                             \
    void weft__linear_##weight##_f32_##isa(const struct weft__linear_call *call, int64_t row0,     \
                                           int64_t row1)                                           \
    {                                                                                              \
        const struct weft__f32_format format = {                                                   \
            weft__f32_decode_##weight, part, bytes32, true, 0, false};                             \
        const struct weft__f32_format alone = {                                                    \
            weft__f32_decode_##weight, part, bytes32, false, 0, false};                            \
        if (call->asks_far && call->batch <= 4)                                                    \
            row0 = weft__linear_##weight##_f32_far_##isa(call, row0, row1);                        \
        for (; weft__f32_is_stream(call, alone) && row0 < row1; row0++)                            \
            weft__f32_multiply_tile(call, row0, 1, 0, 1, alone);                                   \
        WEFT__LINEAR_TILES(call, row0, row1, 4, WEFT__F32_MANY, weft__f32_multiply_tile, format);  \
    }                                                                                              \
    weft__linear_fn weft__linear_##weight##_f32_panel_##isa;                                       \
    void weft__linear_##weight##_f32_panel_##isa(const struct weft__linear_call *call,             \
                                                 int64_t row0, int64_t row1)                       \
    {                                                                                              \
        weft__f32_gemm(call, row0, row1, weft__f32_decode_##weight);                               \
    }

#define WEFT__LINEAR_F32_ALL(isa)                                                                  \
    WEFT__LINEAR_F32(F32, isa, 128, weft__f32_part_F32)                                            \
    WEFT__LINEAR_F32(F16, isa, 64, weft__f32_part_F16)                                             \
    WEFT__LINEAR_F32(BF16, isa, 64, weft__f32_part_BF16)                                           \
    WEFT__LINEAR_F32(Q8_0, isa, 34, NULL)                                                          \
    WEFT__LINEAR_F32(Q4_0, isa, 18, NULL)                                                          \
    WEFT__LINEAR_F32(Q4_K, isa, 18, NULL)                                                          \
    WEFT__LINEAR_F32(Q6_K, isa, 27, NULL)

#endif
