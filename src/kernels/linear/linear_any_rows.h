// SPDX-License-Identifier: MIT
// Any format by a few rows of X, rounded or f32: pieces of four rows of W are expanded, then multiplied by
// every row of X. An instruction set includes its vocabulary and defines weft__any_dot() (or
// WEFT__ANY_F32_ONLY) and weft__any_widen() first.
#ifndef WEFT_KERNELS_LINEAR_ANY_ROWS_H
#define WEFT_KERNELS_LINEAR_ANY_ROWS_H

#include <math.h>

#include "src/formats/plain.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_any.h"
#include "src/kernels/linear/linear_rows.h"

enum { WEFT__ANY_ROWS = 4, WEFT__ANY_COLS = 8 };

struct weft__any_tile {
    vf32 acc[WEFT__ANY_ROWS][WEFT__ANY_COLS];
    vf32 total[WEFT__ANY_ROWS][WEFT__ANY_COLS]; // of the chunks before
};

static inline void weft__any_fold(struct weft__any_tile *t)
{
    for (int r = 0; r < WEFT__ANY_ROWS; r++)
        for (int c = 0; c < WEFT__ANY_COLS; c++) {
            t->total[r][c] = vf32_add(t->total[r][c], t->acc[r][c]);
            t->acc[r][c] = vf32_zero();
        }
}

static inline void weft__any_clear(struct weft__any_tile *t)
{
    for (int r = 0; r < WEFT__ANY_ROWS; r++)
        for (int c = 0; c < WEFT__ANY_COLS; c++)
            t->acc[r][c] = t->total[r][c] = vf32_zero();
}

static inline void weft__any_store(const struct weft__linear_call *call, struct weft__any_tile *t,
                                   int64_t row, int rows, int32_t col, int cols)
{
    weft__any_fold(t);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++)
            weft__linear_store(call, col + c, row + r, vf32_sum(t->total[r][c]));
}

static inline void weft__any_fetch(const struct weft__linear_call *call, int64_t row, int64_t k,
                                   int64_t piece_bytes)
{
    const unsigned char *at = call->weight + row * call->weight_stride_bytes +
                              k / WEFT__PIECE * piece_bytes + WEFT__AHEAD_BYTES;
    for (int64_t i = 0; i < piece_bytes; i += 64)
        __builtin_prefetch(at + i, 0, 2);
}

#ifndef WEFT__ANY_F32_ONLY

// Rows [row, row + rows) of W by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void weft__any_q8_tile(const struct weft__linear_call *call,
                                    const struct weft__any_format *format, int64_t row, int rows,
                                    int32_t col, int cols, bool minima, bool wide)
{
    const int64_t chunk = weft__linear_chunk(call->cols, 2 * VF32_LANES);
    const int64_t piece_bytes = weft_dtype_row_bytes(call->dtype, WEFT__PIECE);
    struct weft__any_tile t;
    struct weft__rounded_row x[WEFT__ANY_COLS];
    struct weft__piece w[WEFT__ANY_ROWS];
    memset(w, 0, sizeof w);
    weft__any_clear(&t);
    for (int c = 0; c < cols; c++)
        x[c] = weft__rounded_row(&call->acts, col + c);
    for (int64_t k = 0; k < call->cols; k += WEFT__PIECE) {
        if (k > 0 && k % chunk == 0)
            weft__any_fold(&t);
        for (int r = 0; r < rows; r++) {
            weft__any_fetch(call, row + r, k, piece_bytes);
            format->expand(call, row + r, k, weft__piece_columns(call, k), &w[r]);
        }
        for (int c = 0; c < cols; c++)
            for (int r = 0; r < rows; r++)
                t.acc[r][c] = weft__any_dot(t.acc[r][c], &w[r], &x[c], k, minima, wide);
    }
    weft__any_store(call, &t, row, rows, col, cols);
}

WEFT__INLINE void weft__any_q8_rows(const struct weft__linear_call *call,
                                    const struct weft__any_format *format, int64_t row0,
                                    int64_t row1, bool minima, bool wide)
{
    for (int64_t row = row0; row < row1; row += WEFT__ANY_ROWS)
        for (int32_t col = 0; col < call->batch; col += WEFT__ANY_COLS) {
            int rows = row1 - row < WEFT__ANY_ROWS ? (int)(row1 - row) : WEFT__ANY_ROWS;
            int cols = call->batch - col < WEFT__ANY_COLS ? call->batch - col : WEFT__ANY_COLS;
            weft__any_q8_tile(call, format, row, rows, col, cols, minima, wide);
        }
}

#endif

#define WEFT__ANY_PLAIN(ID)                                                                        \
    case WEFT_##ID:                                                                                \
        for (int i = 0; i < n; i++)                                                                \
            weft__decode_##ID(code + i * bytes, w + i);                                            \
        break;

// Columns [k, k + n) of a row of a plain format of 8 bits, with what lies beside them: a scale and a bias for many
// columns at a time.
static inline void weft__any_plain(const struct weft__linear_call *call, int64_t row, int64_t k,
                                   int n, float *w)
{
    const struct weft__linear_planes *p = call->planes;
    int64_t bytes = weft_dtype_block_bytes(call->dtype);
    const unsigned char *code = call->weight + row * call->weight_stride_bytes + k * bytes;
    switch (call->dtype) {
        WEFT__ANY_PLAIN(FP8_E4M3)
        WEFT__ANY_PLAIN(FP8_E5M2)
        WEFT__ANY_PLAIN(INT8)
        WEFT__ANY_PLAIN(F16)
        WEFT__ANY_PLAIN(BF16)
        WEFT__ANY_PLAIN(F32)
    default:
        for (int i = 0; i < n; i++)
            w[i] = NAN; // a format without a line here must not look like another
    }
    if (!p)
        return;
    const int64_t of_row = row / p->scale_rows * p->stride;
    for (int i = 0, end; i < n; i = end) {
        const int64_t group = (k + i) / p->scale_cols, left = (group + 1) * p->scale_cols - k;
        const float scale = p->scales ? weft__element_load(p->scales, p->dtype, of_row + group) : 1;
        const float bias = p->biases ? weft__element_load(p->biases, p->dtype, of_row + group) : 0;
        end = left < n ? (int)left : n;
        for (int c = i; p->scales && c < end; c++)
            w[c] *= scale;
        for (int c = i; p->biases && c < end; c++)
            w[c] += bias;
    }
}

// Columns [k, k + n) of a row as f32.
static inline void weft__any_decode(const struct weft__linear_call *call,
                                    const struct weft__any_format *format, int64_t row, int64_t k,
                                    int n, float *w)
{
    if (!format->expand) {
        weft__any_plain(call, row, k, n, w);
        return;
    }
    struct weft__piece piece;
    format->expand(call, row, k, n, &piece);
    vf32 offset = vf32_set1(format->traits.minima == WEFT__NO_MINIMA ? 128.0f : 0.0f);
    for (int i = 0; i < n; i += VF32_LANES) {
        vf32 q = vf32_sub(weft__any_widen(piece.q + i), offset);
        vf32 scale = vf32_set1(piece.scale[i / 16]), minimum = vf32_set1(piece.minimum[i / 16]);
        vf32_store(w + i, vf32_sub(vf32_mul(q, scale), minimum));
    }
}

static inline void weft__any_f32_tile(const struct weft__linear_call *call,
                                      const struct weft__any_format *format, int64_t row, int rows,
                                      int32_t col, int cols)
{
    const int64_t chunk = weft__linear_chunk(call->cols, VF32_LANES);
    struct weft__any_tile t;
    weft__any_clear(&t);
    for (int64_t k = 0; k < call->cols; k += WEFT__PIECE) {
        int n = weft__piece_columns(call, k);
        if (k > 0 && k % chunk == 0)
            weft__any_fold(&t);
        for (int r = 0; r < rows; r++) {
            float w[WEFT__PIECE];
            weft__any_decode(call, format, row + r, k, n, w);
            for (int c = 0; c < cols; c++) {
                const float *x = call->x + (col + c) * call->x_stride + k;
                int i = 0;
                for (; i + VF32_LANES <= n; i += VF32_LANES)
                    t.acc[r][c] = vf32_fma(vf32_load(w + i), vf32_load(x + i), t.acc[r][c]);
                if (i < n)
                    t.acc[r][c] =
                        vf32_fma(vf32_load_n(w + i, n - i), vf32_load_n(x + i, n - i), t.acc[r][c]);
            }
        }
    }
    weft__any_store(call, &t, row, rows, col, cols);
}

static inline void weft__any_f32_rows(const struct weft__linear_call *call,
                                      const struct weft__any_format *format, int64_t row0,
                                      int64_t row1)
{
    for (int64_t row = row0; row < row1; row += WEFT__ANY_ROWS)
        for (int32_t col = 0; col < call->batch; col += WEFT__ANY_COLS) {
            int rows = row1 - row < WEFT__ANY_ROWS ? (int)(row1 - row) : WEFT__ANY_ROWS;
            int cols = call->batch - col < WEFT__ANY_COLS ? call->batch - col : WEFT__ANY_COLS;
            weft__any_f32_tile(call, format, row, rows, col, cols);
        }
}

#endif
