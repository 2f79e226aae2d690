// SPDX-License-Identifier: MIT
// Weights that are bf16, or become so, by some rows of X: more than are read as f32, fewer than hide what turning a
// panel of W costs. Nothing is turned: a lane is two columns of a row of W and of a row of X.
//
//      w[row of W][32 columns]     4 rows by a chunk, widened or copied so that no load of a product crosses a line;
//                                  where that costs more than it gives they are read in place
//      acc[row of X][row of W]     sums across lanes are taken once, of sixteen rows of W together
//
// Memory sees one stream: while some rows of W are multiplied, chunk by chunk, those behind them are asked for in order
// of address, evenly: for the first cache where the CPU asks far ahead (struct weft__cpu), else for the second. The
// first has places for some twenty lines on their way, and a request that finds none is dropped (NOTES.md).
#ifndef WEFT_KERNELS_LINEAR_BF16_LINES_AVX512_H
#define WEFT_KERNELS_LINEAR_BF16_LINES_AVX512_H

#include "src/kernels/linear/linear_bf16_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    LINES_BATCH = 6 * WEFT__BF16_SIXES, // most rows of X
    LINES_COLS = 1 << 18,               // most columns: more chunks would be too long a sum
    LINES_ROWS = 16,                    // of W whose sums are taken together
    LINES_TILE = 4,                     // in registers
    LINES_CHUNK = 1024,                 // most columns whose products are a sum of their own
    LINES_BLOCK = 32,                   // in a register
    LINES_AHEAD = 128 * 1024,           // bytes of W in the second cache, and as many on their way
    LINES_RESULTS = 64                  // rows of W whose results are handed over together
};

struct lines {
    __m512i w[LINES_TILE][LINES_CHUNK / LINES_BLOCK];
    __m512 acc[LINES_BATCH][LINES_ROWS];
    float results[LINES_BATCH][LINES_RESULTS];
};

// How rows of a weight are read.
struct lines_way {
    load_fn *load;
    int bytes;     // of a weight
    bool sixes;    // X lies in sixes
    bool near;     // W is asked for for the first cache, and copied
    bool in_place; // else: it is bf16 as it lies
};

// What the tiles of four rows of W by a chunk have in common.
struct lines_chunk {
    const struct weft__linear_call *call;
    int64_t k, columns;
    int row;                            // the first of the four, of LINES_ROWS
    const unsigned char *w[LINES_TILE]; // 64 bytes are a block of columns
    const unsigned char *next;          // what is to be asked for
    int share;                          // bytes of it for a block of columns
};

// Rows past the last repeat it and are not stored. A chunk with a block that is not whole is copied: nothing behind a
// row is read.
WEFT__INLINE void lines_load(struct lines *p, struct lines_chunk *chunk, int64_t row, int64_t last,
                             struct lines_way way)
{
    const struct weft__linear_call *call = chunk->call;
    const bool copied = !way.in_place || chunk->columns % LINES_BLOCK;
    const unsigned char *from[LINES_TILE];
    for (int r = 0; r < LINES_TILE; r++) {
        from[r] = call->weight + chunk->k * way.bytes +
                  (row + r < last ? row + r : last) * call->weight_stride_bytes;
        chunk->w[r] = copied ? (const unsigned char *)p->w[r] : from[r];
    }
    for (int64_t i = 0; copied && i < chunk->columns; i += LINES_BLOCK) {
        const int64_t left = chunk->columns - i;
        const __mmask32 mask = left < LINES_BLOCK ? (1u << left) - 1 : 0xffffffffu;
        WEFT__UNROLL for (int r = 0; r < LINES_TILE; r++)
        {
            p->w[r][i / LINES_BLOCK] = way.load(from[r], i, mask);
        }
    }
}

// The lines of W that come with a block of columns.
WEFT__INLINE void lines_ask(const unsigned char *next, int lines, bool near)
{
    WEFT__UNROLL for (int i = 0; i < lines; i++)
    {
        if (near)
            __builtin_prefetch(next + 64 * i, 0, 3);
        else
            __builtin_prefetch(next + 64 * i, 0, 2);
    }
}

// Four rows of W by `cols` rows of X from `col` on; those past the last are in memory (sixes) or repeat it.
WEFT__INLINE void lines_multiply(struct lines *p, struct lines_chunk *chunk, int col, int cols,
                                 struct lines_way way)
{
    const struct weft__linear_call *call = chunk->call;
    const int64_t stride = call->x_bf16_stride,
                  block = LINES_BLOCK * (way.sixes ? WEFT__BF16_SIXES : 1);
    const int blocks = (int)((chunk->columns + LINES_BLOCK - 1) / LINES_BLOCK);
    const unsigned char *w[LINES_TILE];
    const uint16_t *x[WEFT__BF16_SIXES];
    __m512 acc[WEFT__BF16_SIXES][LINES_TILE];
    WEFT__UNROLL for (int r = 0; r < LINES_TILE; r++)
    {
        w[r] = chunk->w[r];
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        const int there = col + c < call->batch ? col + c : call->batch - 1;
        x[c] = way.sixes
                   ? call->x_bf16 + col * stride + chunk->k * WEFT__BF16_SIXES + c * LINES_BLOCK
                   : call->x_bf16 + there * stride + chunk->k;
        WEFT__UNROLL for (int r = 0; r < LINES_TILE; r++)
        {
            acc[c][r] = _mm512_setzero_ps();
        }
    }
    for (int b = 0; b < blocks; b++) {
        lines_ask(chunk->next + b * chunk->share, way.bytes, way.near);
        if (chunk->share > 64 * way.bytes)
            lines_ask(chunk->next + b * chunk->share + 64 * way.bytes, way.bytes, way.near);
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            const __m512i v = _mm512_loadu_si512(x[c] + b * block);
            WEFT__UNROLL for (int r = 0; r < LINES_TILE; r++)
            {
                const __m512i u = _mm512_loadu_si512(w[r] + b * sizeof u);
                acc[c][r] = _mm512_dpbf16_ps(acc[c][r], (__m512bh)u, (__m512bh)v);
            }
        }
    }
    chunk->next += blocks * chunk->share;
    WEFT__UNROLL for (int c = 0; c < cols; c++) WEFT__UNROLL for (int r = 0; r < LINES_TILE; r++)
    {
        __m512 *to = &p->acc[col + c][chunk->row + r];
        *to = chunk->k ? _mm512_add_ps(*to, acc[c][r]) : acc[c][r];
    }
}

// What is read after row `row` - 1; where nothing is, the rows at hand.
WEFT__INLINE const unsigned char *lines_behind(const struct weft__linear_call *call, int64_t row,
                                               int64_t rows)
{
    if (call->next && row >= call->next_from)
        return call->next;
    return call->weight + (row < call->rows ? row : row - rows) * call->weight_stride_bytes;
}

// Rows [row, row + rows) of W, of sixteen from row - first on.
WEFT__INLINE void lines_rows(struct lines *p, const struct weft__linear_call *call, int64_t row,
                             int first, int rows, int64_t last, struct lines_way way)
{
    const int64_t most = way.near ? LINES_CHUNK / 2 : LINES_CHUNK;
    const int batch = call->batch, steps = (batch + WEFT__BF16_SIXES - 1) / WEFT__BF16_SIXES;
    struct lines_chunk chunk = {.call = call,
                                .next = lines_behind(call, row + rows, rows),
                                .share = LINES_TILE * LINES_BLOCK * way.bytes / steps};
    for (; chunk.k < call->cols; chunk.k += most) {
        const int64_t left = call->cols - chunk.k;
        chunk.columns = left < most ? left : most;
        for (int r = 0; r < rows; r += LINES_TILE) {
            int c = 0;
            chunk.row = first + r;
            lines_load(p, &chunk, row + r, last, way);
            for (; c + 4 < batch; c += WEFT__BF16_SIXES)
                lines_multiply(p, &chunk, c, WEFT__BF16_SIXES, way);
            if (c + 2 < batch)
                lines_multiply(p, &chunk, c, 4, way);
            else if (c < batch)
                lines_multiply(p, &chunk, c, 2, way);
        }
    }
}

// Rows [row, row1) of W, at most LINES_RESULTS, by the call's rows of X; for whoever takes the results they begin at
// `col`.
WEFT__INLINE void lines_results(struct lines *p, const struct weft__linear_call *call, int32_t col,
                                int64_t row, int64_t row1, struct lines_way way)
{
    struct weft__linear_call to = *call;
    if (call->take) {
        to.y = p->results[0] - row;
        to.y_stride = LINES_RESULTS;
    }
    const bool together = LINES_ROWS * call->weight_stride_bytes <= LINES_AHEAD;
    for (int64_t at = row; at < row1; at += LINES_ROWS) {
        const int64_t left = row1 - at;
        const int rows = together ? LINES_ROWS : LINES_ROWS / 2;
        for (int first = 0; first < LINES_ROWS && first < left; first += rows)
            lines_rows(p, call, at + first, first, rows, row1 - 1, way);
        for (int c = 0; c < call->batch; c++)
            weft__linear_store_lanes(&to, c, at, left < LINES_ROWS ? (int)left : LINES_ROWS,
                                     vf32_sums(p->acc[c]));
    }
    if (call->take)
        call->take(call->taker, p->results[0], LINES_RESULTS, col, call->batch, row, row1 - row);
}

// At most LINES_BATCH rows of X, from `col` on.
WEFT__INLINE struct weft__linear_call lines_call(const struct weft__linear_call *call, int32_t col)
{
    struct weft__linear_call of = *call;
    of.batch = call->batch - col < LINES_BATCH ? call->batch - col : LINES_BATCH;
    of.x_bf16 += col * call->x_bf16_stride;
    of.x_scale = call->x_scale ? call->x_scale + col : NULL;
    of.y = call->y ? call->y + col * call->y_stride : NULL;
    of.residual = call->residual ? call->residual + col * call->residual_stride : NULL;
    return of;
}

WEFT__INLINE void multiply_lines(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                                 struct lines_way way)
{
    struct lines p;
    for (int32_t col = 0; col < call->batch; col += LINES_BATCH) {
        const struct weft__linear_call of = lines_call(call, col);
        for (int64_t row = row0; row < row1; row += LINES_RESULTS)
            lines_results(&p, &of, col, row,
                          row1 - row < LINES_RESULTS ? row1 : row + LINES_RESULTS, way);
    }
}

#endif
