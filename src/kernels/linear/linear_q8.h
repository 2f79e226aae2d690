// SPDX-License-Identifier: MIT
// Quantised weights by 8-bit activations, in the vocabulary of src/kernels/cpu/: a few rows of X at a
// time, the lanes along the columns of W. An instruction set includes its vocabulary, its
// linear_bytes_<isa>.h and defines weft__bytes32_dot() first.
#ifndef WEFT_KERNELS_LINEAR_Q8_H
#define WEFT_KERNELS_LINEAR_Q8_H

#include "src/kernels/linear/linear_bytes.h"
#include "src/kernels/linear/linear_rows.h"

struct weft__q8_format {
    weft__group_fn *group;
    int block_elems, block_bytes;
    bool two_scales, minimum;
};

struct weft__q8_tile {
    struct weft__linear_rows w;
    struct weft__rounded_row x[WEFT__TILE_COLS];
    vf32 acc[WEFT__TILE_ROWS][WEFT__TILE_COLS];
    float minima[WEFT__TILE_ROWS][WEFT__TILE_COLS];
    vf32 total[WEFT__TILE_ROWS][WEFT__TILE_COLS]; // of the chunks before
    float total_minima[WEFT__TILE_ROWS][WEFT__TILE_COLS];
};

WEFT__INLINE void weft__q8_step(struct weft__q8_tile *t, int64_t k, const unsigned char *block,
                                int j, int r, int cols, struct weft__q8_format format)
{
    struct weft__group group = format.group(block, j);
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        weft__bytes32 x = weft__bytes32_load(t->x[c].q + k);
        float scale = t->x[c].scale[k / 32];
        float first = group.scale[0] * scale;
        float second = format.two_scales ? group.scale[1] * scale : first;
        t->acc[r][c] =
            weft__bytes32_dot(t->acc[r][c], group.q, x, first, second, format.two_scales);
        if (format.minimum)
            t->minima[r][c] += group.minimum * t->x[c].scaled[k / 32];
    }
}

// Columns [k, end): a sum of its own.
WEFT__INLINE void weft__q8_chunk(struct weft__q8_tile *t, int64_t k, int64_t end, int rows,
                                 int cols, struct weft__q8_format format)
{
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t->acc[r][c] = vf32_zero();
        t->minima[r][c] = 0;
    }
    int64_t offset = k / format.block_elems * format.block_bytes;
    for (; k < end; k += format.block_elems, offset += format.block_bytes) {
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            weft__linear_fetch(&t->w, r, offset, format.block_bytes);
        }
        for (int j = 0; j < format.block_elems / 32; j++)
            WEFT__UNROLL for (int r = 0; r < rows; r++)
            {
                weft__q8_step(t, k + 32 * j, t->w.first + r * t->w.stride + offset, j, r, cols,
                              format);
            }
    }
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t->total[r][c] = vf32_add(t->total[r][c], t->acc[r][c]);
        t->total_minima[r][c] += t->minima[r][c];
    }
}

WEFT__INLINE void weft__q8_multiply_tile(const struct weft__linear_call *call, int64_t row,
                                         int rows, int32_t col, int cols,
                                         struct weft__q8_format format)
{
    const int64_t chunk = weft__linear_chunk(call->cols, format.two_scales ? 16 : 32);
    struct weft__q8_tile t;
    t.w = weft__linear_rows_at(call, row, rows);
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t.x[c] = weft__rounded_row(&call->acts, weft__linear_tile_col(call, col, c));
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            t.total[r][c] = vf32_zero();
            t.total_minima[r][c] = 0;
        }
    }
    for (int64_t k = 0; k < call->cols; k += chunk)
        weft__q8_chunk(&t, k, call->cols - k < chunk ? call->cols : k + chunk, rows, cols, format);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (col + c < call->batch)
            weft__linear_store(call, col + c, row + r,
                               vf32_sum(t.total[r][c]) - t.total_minima[r][c]);
    }
}

#define WEFT__LINEAR_Q8(weight, isa, ...)                                                          \
    weft__linear_fn weft__linear_##weight##_q8_##isa;                                              \
    void weft__linear_##weight##_q8_##isa(const struct weft__linear_call *call, int64_t row0,      \
                                          int64_t row1)                                            \
    {                                                                                              \
        const struct weft__q8_format format = {__VA_ARGS__};                                       \
        WEFT__LINEAR_TILES(call, row0, row1, 2, 4, weft__q8_multiply_tile, format);                \
    }

#define WEFT__LINEAR_Q8_ALL(isa)                                                                   \
    WEFT__LINEAR_Q8(Q8_0, isa, weft__group_q8_0, 32, 34, false, false)                             \
    WEFT__LINEAR_Q8(Q4_0, isa, weft__group_q4_0, 32, 18, false, false)                             \
    WEFT__LINEAR_Q8(Q4_K, isa, weft__group_q4_k, 256, 144, false, true)                            \
    WEFT__LINEAR_Q8(Q6_K, isa, weft__group_q6_k, 256, 210, true, false)

#endif
