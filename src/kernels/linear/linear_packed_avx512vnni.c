// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by rounded rows of X, any number of them: a lane is a row of W, one broadcast of
// four activations meets all 16. A group of 32 columns is unpacked into registers once and multiplied by each row of X;
// the sum of a row of W adds the same products in the same order whatever the batch is.
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed_few_avx512.h"

enum {
    SOME = 11, // rows of X that are fetched for the weights: more hide their own latency
    TILE = 64, // rows of X whose sums stay in the first cache
    NEAR_BYTES = 320 * 1024, // of panels that several tiles of X share
};

// Among many rows of X the hardware does not read weights far enough ahead. A CPU that does not ask far has no room in its
// first cache for bytes, and with few rows the hardware's alone.
WEFT__INLINE void fetch_group(const unsigned char *codes, int bytes, int cols, struct format f)
{
    const bool dense = bytes >= 512;
    if (f.far) {
        const int64_t ahead = dense || (bytes >= 256 && cols <= SOME) ? 4096 : 2048;
        if (f.chunks && bytes <= 256)
            fetch_weights_in_order(codes, ahead, bytes);
        else
            fetch_weights(codes, ahead, bytes);
    } else if (!dense) {
        fetch_weights(codes, 2048, bytes);
    } else if (cols >= 6) {
        WEFT__UNROLL for (int at = 0; at < bytes; at += 64)
        {
            __builtin_prefetch(codes + 4096 + at, 0, 2);
        }
    }
}

// Sums of many rows of X by a few panels. The two of a row are not a multiple of 4 KB apart: a load that agrees in
// these bits with a store before it waits for that.
struct sums {
    __m512 acc[TILE][PANELS];
    __m512 apart[17];
    __m512 total[TILE][PANELS];
};

// The row that lies `bytes` behind `first`.
WEFT__INLINE struct weft__rounded_row row_behind(const struct weft__rounded_row *first,
                                                 int64_t bytes)
{
    return (struct weft__rounded_row){.q = first->q + bytes,
                                      .scale = (void *)((char *)first->scale + bytes),
                                      .scaled = (void *)((char *)first->scaled + bytes),
                                      .sum32 = (void *)((char *)first->sum32 + bytes),
                                      .sum16 = (void *)((char *)first->sum16 + bytes)};
}

// Where a group stands in its chunk.
enum place { MIDDLE, FIRST, LAST };

// Adds a group of each panel by rows of X, `first` and those behind it, to the sums: of a chunk they begin with its first group
// and join the total, late times the scale, with its last.
WEFT__INLINE void add_group_to(struct sums *sums, const struct group *w, int panels,
                               const struct weft__rounded *acts,
                               const struct weft__rounded_row *first, int cols, int64_t k,
                               enum place place, struct format f)
{
    const int ahead = f.far && cols <= SOME ? 128 : 64;
    for (int c = 0; c < cols; c++) {
        const struct weft__rounded_row x = row_behind(first, c * acts->at.row_bytes);
        __m512 *acc = sums->acc[c], sum[PANELS];
        __builtin_prefetch(x.q + k + ahead, 0, 3);
        if (place == MIDDLE) {
            add_group(acc, w, panels, true, &x, k, f);
            continue;
        }
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            sum[j] = place == FIRST ? _mm512_setzero_ps() : acc[j];
        }
        add_group(sum, w, panels, true, &x, k, f);
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            __m512 *total = &sums->total[c][j];
            if (place == FIRST)
                acc[j] = sum[j];
            else if (f.late)
                *total = _mm512_fmadd_ps(sum[j], w[j].scale[0], *total);
            else
                *total = _mm512_add_ps(*total, sum[j]);
        }
    }
}

// One chunk, from column k on, of each panel.
WEFT__INLINE void multiply_chunk(struct sums *sums, const unsigned char *const chunk[PANELS],
                                 int panels, const struct weft__rounded *acts, int32_t col,
                                 int cols, int64_t k, struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    const struct weft__rounded_row first = weft__rounded_row(acts, col);
    const bool some = f.far && cols <= SOME;
    const int groups = shape.cols / WEFT__PACKED_GROUP;
    struct head head[PANELS];
    WEFT__UNROLL for (int j = 0; j < panels; j++)
    {
        f.begin(chunk[j], &head[j]);
        if (f.far && cols > SOME)
            fetch_weights(chunk[j], shape.group_bytes >= 512 ? 4096 : 2048, shape.head_bytes);
    }
    for (int g = 0; g < groups; g++) {
        struct group w[PANELS];
        const int64_t at = k + WEFT__PACKED_GROUP * g,
                      codes = shape.head_bytes + shape.group_bytes * g;
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            f.unpack(chunk[j], chunk[j] + codes, g, &head[j], &w[j]);
            fetch_group(chunk[j] + codes, shape.group_bytes, cols, f);
        }
        if (f.chunks && g == 0)
            add_group_to(sums, w, panels, acts, &first, cols, at, FIRST, f);
        else if (f.chunks && g == groups - 1)
            add_group_to(sums, w, panels, acts, &first, cols, at, LAST, f);
        else if (f.chunks)
            add_group_to(sums, w, panels, acts, &first, cols, at, MIDDLE, f);
        for (int c = 0; c < cols && !f.chunks; c++) {
            const struct weft__rounded_row x = row_behind(&first, c * acts->at.row_bytes);
            if (some)
                __builtin_prefetch(x.q + at + 128, 0, 3);
            add_group(sums->acc[c], w, panels, true, &x, at, f);
        }
    }
}

static void clear(__m512 sums[][PANELS], int cols)
{
    for (int c = 0; c < cols; c++)
        for (int j = 0; j < PANELS; j++)
            sums[c][j] = _mm512_setzero_ps();
}

static void fold(struct sums *sums, int cols)
{
    for (int c = 0; c < cols; c++)
        for (int j = 0; j < PANELS; j++)
            sums->total[c][j] = _mm512_add_ps(sums->total[c][j], sums->acc[c][j]);
    clear(sums->acc, cols);
}

// Stores what the sums come to.
WEFT__INLINE void store_sums(const struct weft__linear_call *call, const struct sums *sums,
                             int64_t row, int64_t row1, int panels, int32_t col, int32_t cols,
                             struct format f)
{
    for (int c = 0; c < cols; c++) {
        if (c + WEFT__STORES_AHEAD < cols)
            weft__linear_fetch_stores(call, col + c + WEFT__STORES_AHEAD, row,
                                      panels * WEFT__PACKED_ROWS);
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            const int64_t at = row + j * WEFT__PACKED_ROWS, left = row1 - at;
            const __m512 sum =
                f.chunks ? sums->total[c][j] : _mm512_add_ps(sums->total[c][j], sums->acc[c][j]);
            weft__linear_store_lanes(call, col + c, at,
                                     left < WEFT__PACKED_ROWS ? (int)left : WEFT__PACKED_ROWS, sum);
        }
    }
}

// Panels that follow one another, from `p` on, by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void multiply_many(const struct weft__linear_call *call, struct panel p, int64_t row1,
                                int panels, int32_t col, int cols, struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    const int64_t sum = sum_columns(call->cols),
                  bytes = weft__packed_panel_bytes(shape, call->cols);
    const int64_t chunk_bytes = weft__packed_panel_bytes(shape, shape.cols);
    struct sums sums;
    clear(sums.total, cols);
    if (!f.chunks)
        clear(sums.acc, cols);
    for (int64_t k = 0; k < call->cols; k += shape.cols) {
        const unsigned char *chunk[PANELS] = {p.chunks + k / shape.cols * chunk_bytes};
        chunk[PANELS - 1] = chunk[0] + (panels - 1) * bytes;
        multiply_chunk(&sums, chunk, panels, &call->acts, col, cols, k, f);
        if (!f.chunks && (k + shape.cols) % sum == 0)
            fold(&sums, cols);
    }
    store_sums(call, &sums, p.row, row1, panels, col, cols, f);
}

// Rows [row0, row1) of W by rows [col, col + cols) of X.
WEFT__INLINE void multiply_rows(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                                int32_t col, int cols, bool few, struct format f)
{
    const int64_t panel_bytes = weft__packed_panel_bytes(weft__packed_shape(f.dtype), call->cols);
    const uintptr_t end = (uintptr_t)call->weight + (uintptr_t)((row1 + WEFT__PACKED_ROWS - 1) /
                                                                WEFT__PACKED_ROWS * panel_bytes);
    for (int64_t row = row0, step; row < row1; row += step) {
        const int64_t left = row1 - row;
        struct panel p = {call->weight + row / WEFT__PACKED_ROWS * panel_bytes, row,
                          left < WEFT__PACKED_ROWS ? (int)left : WEFT__PACKED_ROWS, end,
                          call->next ? (int64_t)((uintptr_t)call->next - end) : 0};
        step = WEFT__PACKED_ROWS;
        if (few && f.far && call->asks_near && call->batch == 1) {
            const int64_t panels = (left + WEFT__PACKED_ROWS - 1) / WEFT__PACKED_ROWS,
                          turns = (panels + STREAMS - 1) / STREAMS,
                          streams = (panels + turns - 1) / turns;
            multiply_streams(call, p, (int)streams, left, col, f);
            step = streams * WEFT__PACKED_ROWS;
        } else if (few && call->batch == 1) {
            multiply_few(call, p, col, 1, f);
        } else if (few && call->batch == 2) {
            multiply_few(call, p, col, 2, f);
        } else if (few && call->batch <= FEW) {
            multiply_few(call, p, col, FEW, f);
        } else if (few && f.halves && !f.minimum && f.far && call->batch <= FEW_HALVES) {
            multiply_few(call, p, col, call->batch <= 6 ? 6 : FEW_HALVES, f);
        } else if (left <= WEFT__PACKED_ROWS) {
            multiply_many(call, p, row1, 1, col, cols, f);
        } else {
            multiply_many(call, p, row1, PANELS, col, cols, f);
            step = PANELS * WEFT__PACKED_ROWS;
        }
    }
}

// Rows of X go in tiles of equal size, and pass over panels that stay in the second cache. `few`: there may be so few that
// their sums stay in registers.
WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           bool few, struct format f)
{
    const int32_t tiles = (call->batch + TILE - 1) / TILE;
    const int32_t tile = (call->batch + tiles - 1) / tiles;
    const int64_t panel_bytes = weft__packed_panel_bytes(weft__packed_shape(f.dtype), call->cols);
    const int64_t bytes = (row1 - row0) * panel_bytes / WEFT__PACKED_ROWS,
                  parts = tiles > 1 ? bytes / NEAR_BYTES + 1 : 1, step = PANELS * WEFT__PACKED_ROWS;
    const int64_t rows = (row1 - row0 + parts * step - 1) / (parts * step) * step;
    for (int64_t row = row0; row < row1; row += rows)
        for (int32_t col = 0; col < call->batch; col += tile)
            multiply_rows(call, row, row1 - row < rows ? row1 : row + rows, col,
                          call->batch - col < tile ? call->batch - col : tile, few, f);
}

#define PACKED_NAMED(name, ID, few, ...)                                                           \
    static void name(const struct weft__linear_call *call, int64_t row0, int64_t row1)             \
    {                                                                                              \
        if (call->asks_far)                                                                        \
            multiply(call, row0, row1, few, (struct format){WEFT_##ID, true, __VA_ARGS__});        \
        else                                                                                       \
            multiply(call, row0, row1, few, (struct format){WEFT_##ID, false, __VA_ARGS__});       \
    }

// Formats whose last bits differ among many rows of X have another text for these.
#define PACKED_TWO(ID, run_few, run_many)                                                          \
    weft__linear_fn weft__linear_##ID##_q8_packed_avx512vnni;                                      \
    void weft__linear_##ID##_q8_packed_avx512vnni(const struct weft__linear_call *call,            \
                                                  int64_t row0, int64_t row1)                      \
    {                                                                                              \
        if (weft__linear_many(call))                                                               \
            run_many(call, row0, row1);                                                            \
        else                                                                                       \
            run_few(call, row0, row1);                                                             \
    }

#define PACKED(ID, minimum, offset_shift, begin, unpack)                                           \
    PACKED_NAMED(run_##ID, ID, true, false, false, false, false, minimum, offset_shift, begin,     \
                 unpack)                                                                           \
    PACKED_NAMED(run_many_##ID, ID, false, false, false, true, false, minimum, offset_shift,       \
                 begin, unpack)                                                                    \
    PACKED_TWO(ID, run_##ID, run_many_##ID)

PACKED(Q4_0, false, 0, begin_blocks, unpack_q4_0)
PACKED(Q8_0, false, 4, begin_blocks, unpack_q8_0)
PACKED(Q4_1, true, 0, begin_blocks, unpack_q4_1)
PACKED(Q5_0, false, 1, begin_blocks, unpack_q5_0)
PACKED(Q5_1, true, 0, begin_blocks, unpack_q5_1)
PACKED(IQ4_NL, false, 4, begin_blocks, unpack_iq4_nl)
PACKED(Q4_K, true, 0, begin_q45_k, unpack_q4_k)
PACKED(Q5_K, true, 0, begin_q45_k, unpack_q5_k)
PACKED(IQ4_XS, false, 4, begin_iq4_xs, unpack_iq4_xs)
PACKED(MXFP4, false, 1, begin_blocks, unpack_mxfp4)

// Formats with a scale for each 16 columns. Codes of q3_k times scales are worth their making: a sum of 32 columns instead of
// two of 16.
#define PACKED_HALVES(ID, minimum, offset_shift, begin, unpack)                                    \
    PACKED_NAMED(run_##ID, ID, true, true, false, false, false, minimum, offset_shift, begin,      \
                 unpack)

PACKED_HALVES(Q3_K, false, -3, begin_q3_k, unpack_q3_k)
PACKED_NAMED(run_scaled_Q3_K, Q3_K, false, false, false, true, true, false, 4, begin_q3_k,
             unpack_scaled_q3_k)
PACKED_TWO(Q3_K, run_Q3_K, run_scaled_Q3_K)

PACKED_HALVES(Q6_K, false, 0, begin_q6_k, unpack_q6_k)
PACKED_NAMED(run_many_Q6_K, Q6_K, false, true, true, true, false, false, 0, begin_q6_k, unpack_q6_k)
PACKED_TWO(Q6_K, run_Q6_K, run_many_Q6_K)

PACKED_HALVES(Q2_K, true, 0, begin_q2_k, unpack_q2_k)
PACKED_NAMED(run_many_Q2_K, Q2_K, false, true, true, true, false, true, 0, begin_q2_k, unpack_q2_k)
PACKED_TWO(Q2_K, run_Q2_K, run_many_Q2_K)
