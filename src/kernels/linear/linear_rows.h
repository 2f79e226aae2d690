// SPDX-License-Identifier: MIT
// What the kernels for a few rows of X share: walking tiles of W, fetching ahead.
#ifndef WEFT_KERNELS_LINEAR_ROWS_H
#define WEFT_KERNELS_LINEAR_ROWS_H

#include "src/kernels/linear/linear_kernel.h"

enum {
    WEFT__TILE_ROWS = 4, // most rows of W in a tile
    WEFT__TILE_COLS = 4, // most rows of X in a tile
    WEFT__AHEAD_BYTES = 1024,
};

// A text compiled once more without one of its choices, to see what that is worth (weft bench linear --ablate):
// the file that includes it sets one of these, and the middle of its functions' names.
//
//      WEFT__LINEAR_ACTS      q8
//      WEFT__LINEAR_SHARE     4: rows of W that share a load of X
//      WEFT__LINEAR_FETCH     true: rows are fetched ahead
#ifndef WEFT__LINEAR_ACTS
#define WEFT__LINEAR_ACTS q8
#else
#define WEFT__LINEAR_ABLATED 1
#endif
#ifndef WEFT__LINEAR_SHARE
#define WEFT__LINEAR_SHARE 4
#endif
#ifndef WEFT__LINEAR_FETCH
#define WEFT__LINEAR_FETCH true
#endif
#define WEFT__LINEAR_JOIN(weight, acts, isa)   weft__linear_##weight##_##acts##_##isa
#define WEFT__LINEAR_JOINED(weight, acts, isa) WEFT__LINEAR_JOIN(weight, acts, isa)
#define WEFT__LINEAR_NAME(weight, isa)         WEFT__LINEAR_JOINED(weight, WEFT__LINEAR_ACTS, isa)

// The rows of W in a tile.
struct weft__linear_rows {
    const unsigned char *first;
    int64_t stride;
    int64_t turn, skip;        // past offset `turn`, what is wanted next lies `skip` farther
    const unsigned char *next; // the tile that comes next
    const unsigned char *far;  // `first` to who asks several rows ahead
};

WEFT__INLINE struct weft__linear_rows weft__linear_rows_at(const struct weft__linear_call *call,
                                                           int64_t row, int rows)
{
    const int64_t stride = call->weight_stride_bytes;
    const unsigned char *first = call->weight + row * stride;
    return (struct weft__linear_rows){
        first,
        stride,
        stride - WEFT__AHEAD_BYTES,
        (rows - 1) * stride,
        call->next && row + rows >= call->next_from ? call->next : first + rows * stride,
        first};
}

// Hardware prefetchers stop at the end of a page and see rows as unrelated streams, so kernels ask for what
// they will want. A prefetch never faults.
//
// What row r needs WEFT__AHEAD_BYTES from now, across its end into the tile that comes next.
WEFT__INLINE const unsigned char *weft__linear_ahead(const struct weft__linear_rows *w, int r,
                                                     int64_t offset)
{
    int64_t skip = offset >= w->turn ? w->skip : 0;
    return w->first + r * w->stride + offset + skip + WEFT__AHEAD_BYTES;
}

WEFT__INLINE void weft__linear_fetch(const struct weft__linear_rows *w, int r, int64_t offset,
                                     int bytes)
{
    const unsigned char *ahead = weft__linear_ahead(w, r, offset);
    WEFT__UNROLL for (int i = 0; i < bytes && WEFT__LINEAR_FETCH; i += 64)
    {
        __builtin_prefetch(ahead + i, 0, 3);
    }
}

// What the tile behind this one has where this one has `bytes` of each row, in order of address, so that
// memory sees a single stream: into the first cache where both tiles have room there, else into the second.
WEFT__INLINE void weft__linear_fetch_next(const struct weft__linear_rows *w, int rows,
                                          int64_t offset, int bytes)
{
    enum { NEAR_TILE_BYTES = 12 << 10 };
    const unsigned char *next = w->next + rows * offset;
    if (rows * w->stride <= NEAR_TILE_BYTES)
        WEFT__UNROLL for (int i = 0; i < rows * bytes && WEFT__LINEAR_FETCH; i += 64)
        {
            __builtin_prefetch(next + i, 0, 3);
        }
    else
        WEFT__UNROLL for (int i = 0; i < rows * bytes && WEFT__LINEAR_FETCH; i += 64)
        {
            __builtin_prefetch(next + i, 0, 2);
        }
}

// Columns of a tile past the batch repeat its last row and are not stored.
WEFT__INLINE int32_t weft__linear_tile_col(const struct weft__linear_call *call, int32_t col, int c)
{
    return col + c < call->batch ? col + c : call->batch - 1;
}

// Calls tile(call, row, rows, col, cols, argument) for rows [row0, row1) of W and all rows of X, with
// rows and cols known when compiled. Three and more rows of X go `many_cols` at a time with `many_rows` of
// W. What is best is a matter of registers; the order of a sum is the same in all.
#define WEFT__LINEAR_TILES(call, row0, row1, many_rows, many_cols, tile, argument)                 \
    do {                                                                                           \
        enum { ALONE_ = WEFT__LINEAR_SHARE, MANY_ = (many_rows) < ALONE_ ? (many_rows) : ALONE_ }; \
        int64_t row_ = row0;                                                                       \
        if ((call)->batch == 1)                                                                    \
            for (; row_ + ALONE_ <= (row1); row_ += ALONE_)                                        \
                tile(call, row_, ALONE_, 0, 1, argument);                                          \
        else if ((call)->batch == 2)                                                               \
            for (; row_ + ALONE_ <= (row1); row_ += ALONE_)                                        \
                tile(call, row_, ALONE_, 0, 2, argument);                                          \
        else                                                                                       \
            for (; row_ + MANY_ <= (row1); row_ += MANY_)                                          \
                for (int32_t col_ = 0; col_ < (call)->batch; col_ += (many_cols))                  \
                    tile(call, row_, MANY_, col_, many_cols, argument);                            \
        for (; row_ < (row1); row_++)                                                              \
            for (int32_t col_ = 0; col_ < (call)->batch; col_ += 2)                                \
                tile(call, row_, 1, col_, 2, argument);                                            \
    } while (0)

#endif
