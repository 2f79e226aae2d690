// SPDX-License-Identifier: MIT
// Weights of every format by f32 activations, in the vocabulary of src/kernels/cpu/: a few rows of X
// at a time, the lanes along the columns of W. An instruction set includes its vocabulary, its
// linear_bytes_<isa>.h and defines weft__bytes32_widen() first.
#ifndef WEFT_KERNELS_LINEAR_F32_H
#define WEFT_KERNELS_LINEAR_F32_H

#include "src/kernels/linear/linear_bytes.h"
#include "src/kernels/linear/linear_rows.h"

enum {
    WEFT__F32_PARTS = 32 / VF32_LANES,
    WEFT__F32_NEAR_COLS =
        4096, // of X, which the first cache holds beside a stream that nobody asks for
    WEFT__F32_APART_COLS = 8192, // beside four streams that are asked for
};

// Columns [k, k + 32) of a row as f32; with `n` below 32 only the first n are read, and zeros follow.
typedef void weft__f32_decode_fn(const unsigned char *row, int64_t k, int n,
                                 vf32 w[WEFT__F32_PARTS]);

WEFT__INLINE int weft__f32_part(int n, int i)
{
    int left = n - i * VF32_LANES;
    return left < 0 ? 0 : left < VF32_LANES ? left : VF32_LANES;
}

// Part i of them alone; formats that have this are plain.
typedef vf32 weft__f32_part_fn(const unsigned char *row, int64_t k, int n, int i);

#define WEFT__F32_PLAIN(name, type, load, load_n)                                                  \
    WEFT__INLINE vf32 weft__f32_part_##name(const unsigned char *row, int64_t k, int n, int i)     \
    {                                                                                              \
        const type *at = (const type *)(const void *)row + k + i * VF32_LANES;                     \
        return n == 32 ? load(at) : load_n(at, weft__f32_part(n, i));                              \
    }                                                                                              \
    WEFT__INLINE void weft__f32_decode_##name(const unsigned char *row, int64_t k, int n,          \
                                              vf32 w[WEFT__F32_PARTS])                             \
    {                                                                                              \
        WEFT__UNROLL for (int i = 0; i < WEFT__F32_PARTS; i++)                                     \
        {                                                                                          \
            w[i] = weft__f32_part_##name(row, k, n, i);                                            \
        }                                                                                          \
    }

WEFT__F32_PLAIN(F32, float, vf32_load, vf32_load_n)
WEFT__F32_PLAIN(F16, uint16_t, vf32_load_f16, vf32_load_f16_n)
WEFT__F32_PLAIN(BF16, uint16_t, vf32_load_bf16, vf32_load_bf16_n)

WEFT__INLINE void weft__f32_decode_group(const struct weft__group *group, vf32 w[WEFT__F32_PARTS])
{
    WEFT__UNROLL for (int i = 0; i < WEFT__F32_PARTS; i++)
    {
        vf32 scale = vf32_set1(group->scale[i * VF32_LANES / 16]);
        w[i] =
            vf32_sub(vf32_mul(weft__bytes32_widen(group->q, i), scale), vf32_set1(group->minimum));
    }
}

#define WEFT__F32_BLOCKS(name, group_of, block_elems, block_bytes)                                 \
    WEFT__INLINE void weft__f32_decode_##name(const unsigned char *row, int64_t k, int n,          \
                                              vf32 w[WEFT__F32_PARTS])                             \
    {                                                                                              \
        (void)n;                                                                                   \
        struct weft__group group =                                                                 \
            group_of(row + k / (block_elems) * (block_bytes), (int)(k % (block_elems) / 32));      \
        weft__f32_decode_group(&group, w);                                                         \
    }

WEFT__F32_BLOCKS(Q8_0, weft__group_q8_0, 32, 34)
WEFT__F32_BLOCKS(Q4_0, weft__group_q4_0, 32, 18)
WEFT__F32_BLOCKS(Q4_K, weft__group_q4_k, 256, 144)
WEFT__F32_BLOCKS(Q6_K, weft__group_q6_k, 256, 210)

struct weft__f32_format {
    weft__f32_decode_fn *decode;
    weft__f32_part_fn *part; // or NULL
    int bytes32;             // of 32 columns, rounded up
    bool ahead;              // the next tile is asked for, else left to the hardware
    int far_bytes;           // ahead of each row, or 0
    bool apart;              // rows of a tile are streams of their own (struct weft__f32_streams)
};

struct weft__f32_tile {
    struct weft__linear_rows w;
    const float *x[WEFT__TILE_COLS];
    vf32 acc[WEFT__TILE_ROWS][WEFT__TILE_COLS];
};

WEFT__INLINE void weft__f32_step(struct weft__f32_tile *t, int64_t k, int n, int rows, int cols,
                                 struct weft__f32_format format)
{
    // Where there are not registers for all parts, loads of a plain format come just before they are used.
    const bool late = format.part && WEFT__F32_PARTS > 2;
    vf32 w[WEFT__TILE_ROWS][WEFT__F32_PARTS];
    if (!late)
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            format.decode(t->w.first + r * t->w.stride, k, n, w[r]);
        }
    WEFT__UNROLL for (int i = 0; i < WEFT__F32_PARTS; i++)
    {
        if (late)
            WEFT__UNROLL for (int r = 0; r < rows; r++)
            {
                w[r][i] = format.part(t->w.first + r * t->w.stride, k, n, i);
            }
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            const float *at = t->x[c] + k + i * VF32_LANES;
            vf32 x = n == 32 ? vf32_load(at) : vf32_load_n(at, weft__f32_part(n, i));
            WEFT__UNROLL for (int r = 0; r < rows; r++)
            {
                t->acc[r][c] = vf32_fma(w[r][i], x, t->acc[r][c]);
            }
        }
    }
}

// What each row of a tile needs some KB from now, over its end in the row of the next tile that takes its place.
WEFT__INLINE void weft__f32_fetch_far(const struct weft__linear_rows *w, int rows, int64_t offset,
                                      struct weft__f32_format format)
{
    const int64_t far = offset + format.far_bytes;
    const unsigned char *ahead = w->far + far + (far >= w->stride ? (rows - 1) * w->stride : 0);
    if (format.apart) // a row ends at `turn`
        ahead = far < w->turn ? w->first + far : w->next + (far - w->turn);
    WEFT__UNROLL for (int r = 0; r < rows; r++)
    {
        WEFT__UNROLL for (int i = 0; i < format.bytes32; i += 64)
        {
            __builtin_prefetch(ahead + r * w->stride + i, 0, 3);
        }
    }
}

// Where `first` of a tile would be, if what is read after the call's last row lay behind that. A tile whose requests cross that
// place goes by where half of them lie.
WEFT__INLINE const unsigned char *weft__f32_far_from(const struct weft__linear_call *call,
                                                     int64_t row, struct weft__f32_format format)
{
    const int64_t stride = call->weight_stride_bytes, left = (call->next_from - row) * stride;
    const unsigned char *first = call->weight + row * stride;
    const bool past = call->next && format.far_bytes + stride / 2 >= left;
    return past ? call->next - left : first;
}

// Columns [k, end): a sum of its own, added to the total, since in a single long one small products
// would drown.
WEFT__INLINE void weft__f32_chunk(struct weft__f32_tile *t, int64_t k, int64_t end, int rows,
                                  int cols, struct weft__f32_format format, vf32 *total)
{
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t->acc[r][c] = vf32_zero();
    }
    for (; k + 32 <= end; k += 32) {
        if (format.ahead)
            weft__linear_fetch_next(&t->w, rows, k / 32 * format.bytes32, format.bytes32);
        if (format.far_bytes)
            weft__f32_fetch_far(&t->w, rows, k / 32 * format.bytes32, format);
        weft__f32_step(t, k, 32, rows, cols, format);
    }
    if (k < end)
        weft__f32_step(t, k, (int)(end - k), rows, cols, format);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        total[r * cols + c] = vf32_add(total[r * cols + c], t->acc[r][c]);
    }
}

// Rows of W that a tile has `apart` rows from one another (0: beside one another), and where the next tile's lie likewise.
struct weft__f32_streams {
    int64_t apart;
    const unsigned char *next;
};

WEFT__INLINE void weft__f32_multiply_streams(const struct weft__linear_call *call, int64_t row,
                                             int rows, int32_t col, int cols,
                                             struct weft__f32_format format,
                                             struct weft__f32_streams streams)
{
    const int64_t apart = streams.apart ? streams.apart : 1;
    const int64_t chunk = weft__linear_chunk(call->cols, VF32_LANES);
    vf32 total[WEFT__TILE_ROWS * WEFT__TILE_COLS];
    struct weft__f32_tile t;
    for (int i = 0; i < rows * cols; i++)
        total[i] = vf32_zero();
    t.w = weft__linear_rows_at(call, row, rows);
    t.w.next = t.w.first + rows * t.w.stride; // not the call's: there is no register for it
    t.w.far = weft__f32_far_from(call, row, format);
    if (streams.apart) {
        t.w.next = streams.next;
        t.w.turn = t.w.stride;
        t.w.stride *= apart;
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t.x[c] = call->x + weft__linear_tile_col(call, col, c) * call->x_stride;
    }
    for (int64_t k = 0; k < call->cols; k += chunk)
        weft__f32_chunk(&t, k, call->cols - k < chunk ? call->cols : k + chunk, rows, cols, format,
                        total);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (col + c < call->batch)
            weft__linear_store(call, col + c, row + r * apart, vf32_sum(total[r * cols + c]));
    }
}

WEFT__INLINE void weft__f32_multiply_tile(const struct weft__linear_call *call, int64_t row,
                                          int rows, int32_t col, int cols,
                                          struct weft__f32_format format)
{
    weft__f32_multiply_streams(call, row, rows, col, cols, format,
                               (struct weft__f32_streams){0, NULL});
}

// Rows [row0, row1) of W as four streams, so that no stream's pause at the end of a page is the thread's; the first of the last
// few that it leaves.
WEFT__INLINE int64_t weft__f32_multiply_apart(const struct weft__linear_call *call, int64_t row0,
                                              int64_t row1, struct weft__f32_format format)
{
    const int64_t apart = (row1 - row0) / 4, left = row0 + 4 * apart;
    for (int64_t row = row0; row < row0 + apart; row++) {
        struct weft__f32_streams streams = {
            apart,
            call->weight + (row + 1 < row0 + apart ? row + 1 : left) * call->weight_stride_bytes};
        if (row + 1 == row0 + apart && call->next && left >= call->next_from)
            streams.next = call->next;
        weft__f32_multiply_streams(call, row, 4, 0, 1, format, streams);
    }
    return left;
}

// One row of X by plain rows of W, one after the other: a single stream, which the hardware reads ahead better
// than tiles are asked for (NOTES.md), as long as X stays in the first cache beside it and one chain of sums
// keeps up.
WEFT__INLINE bool weft__f32_is_stream(const struct weft__linear_call *call,
                                      struct weft__f32_format format)
{
    return WEFT__F32_PARTS <= 2 && format.part && call->batch == 1 &&
           call->cols <= WEFT__F32_NEAR_COLS;
}

// Of a CPU that asks far ahead: how many plain rows of W go together by one row of X, or by up to four, where
// not tiles of four do (0). Asked for so, rows are a single stream with more of X, too. One that asks near gets more
// from two streams, and four of short rows.
WEFT__INLINE int weft__f32_together(const struct weft__linear_call *call,
                                    struct weft__f32_format format)
{
    enum { FAR_COLS = 10240 };
    const bool near = call->cols <= WEFT__F32_NEAR_COLS, halves = format.bytes32 <= 64;
    if (WEFT__F32_PARTS > 2 || !format.part || call->batch > 4)
        return 0;
    if (call->batch > 1)
        return !halves ? 0 : call->batch == 2 && near ? 1 : 2;
    return halves && (call->asks_near || call->cols > FAR_COLS) ? 2 : 1;
}

// The hardware reads f32 by short rows as fast as if it were asked.
WEFT__INLINE bool weft__f32_is_far(const struct weft__linear_call *call,
                                   struct weft__f32_format format)
{
    return format.bytes32 <= 64 || call->cols > WEFT__F32_NEAR_COLS;
}

#endif
