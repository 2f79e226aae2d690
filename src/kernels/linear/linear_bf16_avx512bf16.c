// SPDX-License-Identifier: MIT
// Weights of 16 bits, and of f32 that may be rounded, by bf16 activations for many rows of X (prefill): vdpbf16ps multiplies twice as many
// numbers as an f32 multiplication of the same width. Panels of 64 rows of W are turned round for each
// chunk of columns, so that a lane is a row of W and a broadcast pair of x meets 64 rows.
//
//      w[pair][vector]      16 rows x 2 columns
//      acc[row of X][vector] 16 rows of f32, kept over the chunks
//
// All rows of a batch share a panel, so that W is read and turned once. Where X is made for one matrix, six rows of it
// lie in one another: what a step reads is one stream.
//
// A few rows of X wait for memory anyway: they stay f32.
#include "src/kernels/linear/linear_bf16_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    VECTORS = 4,
    PANEL_ROWS = 16 * VECTORS,
    CHUNK = 128,                  // columns whose products are a sum of their own
    STEP_COLS = WEFT__BF16_SIXES, // rows of X in registers
    TILE_COLS = 86 * STEP_COLS,   // rows of X that share a panel
    FOLD = 64 * CHUNK             // columns whose chunks share a sum
};

struct panel {
    __m512i w[CHUNK / 2][VECTORS];
    __m512 acc[TILE_COLS][VECTORS];
    __m512 total[TILE_COLS][VECTORS]; // of FOLD columns at a time
};

// A row that lies in five others.
static void narrow_one(const float *x, int64_t cols, int32_t m, uint16_t *to, int64_t stride)
{
    to += m / STEP_COLS * STEP_COLS * stride + m % STEP_COLS * 2;
    for (int64_t i = 0; i < cols; i += 32, to += 32 * STEP_COLS) {
        uint16_t pairs[16][2];
        _mm512_storeu_si512(pairs, narrow_row(x + i, cols - i));
        for (int n = 0; n < 16; n++)
            memcpy(to + n * 2 * STEP_COLS, pairs[n], sizeof pairs[n]);
    }
}

// Where the pairs of a register of six rows come from: a place in one of two rows, and of which two.
struct sixes {
    __m512i from[STEP_COLS];
    __mmask16 second[STEP_COLS], third[STEP_COLS];
};

static struct sixes order_of_sixes(void)
{
    struct sixes s;
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int v = 0; v < STEP_COLS; v++) {
        const __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(16 * v));
        const __m512i pair = // at / 6
            _mm512_srli_epi32(_mm512_mullo_epi32(at, _mm512_set1_epi32(43)), 8);
        const __m512i row =
            _mm512_sub_epi32(at, _mm512_mullo_epi32(pair, _mm512_set1_epi32(STEP_COLS)));
        const __m512i odd = _mm512_and_si512(row, _mm512_set1_epi32(1));
        s.from[v] = _mm512_or_si512(pair, _mm512_slli_epi32(odd, 4));
        s.second[v] = _mm512_cmpge_epi32_mask(row, _mm512_set1_epi32(2));
        s.third[v] = _mm512_cmpge_epi32_mask(row, _mm512_set1_epi32(4));
    }
    return s;
}

// Six rows at once: whole lines are written, where each row for itself touches all of them.
static void narrow_six(const float *x, int64_t x_stride, int64_t cols, uint16_t *to)
{
    const struct sixes s = order_of_sixes();
    for (int64_t i = 0; i < cols; i += 32, to += 32 * STEP_COLS) {
        __m512i w[STEP_COLS];
        WEFT__UNROLL for (int c = 0; c < STEP_COLS; c++)
        {
            w[c] = narrow_row(x + c * x_stride + i, cols - i);
        }
        WEFT__UNROLL for (int v = 0; v < STEP_COLS; v++)
        {
            __m512i pairs = _mm512_permutex2var_epi32(w[0], s.from[v], w[1]);
            pairs = _mm512_mask_blend_epi32(s.second[v], pairs,
                                            _mm512_permutex2var_epi32(w[2], s.from[v], w[3]));
            pairs = _mm512_mask_blend_epi32(s.third[v], pairs,
                                            _mm512_permutex2var_epi32(w[4], s.from[v], w[5]));
            _mm512_storeu_si512(to + 32 * v, pairs);
        }
    }
}

// Sixes of rows: pair i of the first, of the second, ... of the sixth, pair i + 1 of the first.
weft__narrow_fn weft__linear_narrow_avx512bf16;
void weft__linear_narrow_avx512bf16(const float *x, int64_t x_stride, int32_t rows, int64_t cols,
                                    int32_t m, uint16_t *to, int64_t stride)
{
    for (const int32_t end = m + rows; m < end;) {
        const int32_t step = m % STEP_COLS == 0 && m + STEP_COLS <= end ? STEP_COLS : 1;
        if (step == STEP_COLS)
            narrow_six(x, x_stride, cols, to + m * stride);
        else
            narrow_one(x, cols, m, to, stride);
        m += step;
        x += step * x_stride;
    }
}

weft__narrow_fn weft__linear_narrow_rows_avx512bf16;
void weft__linear_narrow_rows_avx512bf16(const float *x, int64_t x_stride, int32_t rows,
                                         int64_t cols, int32_t m, uint16_t *to, int64_t stride)
{
    to += m * stride;
    for (int32_t r = 0; r < rows; r++, x += x_stride, to += stride)
        for (int64_t i = 0; i < cols; i += 32)
            _mm512_storeu_si512(to + i, narrow_row(x + i, cols - i));
}

// Columns [k, k + 32) of 16 rows, as vector v of the 16 pairs from `pair` on.
WEFT__INLINE void turn(struct panel *p, int64_t pair, int v, const unsigned char *const rows[16],
                       int64_t k, __mmask32 mask, load_fn *load)
{
    __m512 w[16];
    WEFT__UNROLL for (int r = 0; r < 16; r++)
    {
        w[r] = _mm512_castsi512_ps(load(rows[r], k, mask));
    }
    vf32_transpose(w);
    WEFT__UNROLL for (int i = 0; i < 16; i++)
    {
        p->w[pair + i][v] = _mm512_castps_si512(w[i]);
    }
}

// Columns [k, k + columns), at most a chunk, of the rows from `row` on; those past the last repeat it and are
// not stored. What is missing of 32 columns is zero.
WEFT__INLINE void load_panel(struct panel *p, const struct weft__linear_call *call, int64_t row,
                             int64_t last, int64_t k, int64_t columns, load_fn *load)
{
    for (int v = 0; v < VECTORS; v++) {
        const unsigned char *rows[16];
        for (int r = 0; r < 16; r++) {
            int64_t at = row + 16 * v + r < last ? row + 16 * v + r : last;
            rows[r] = call->weight + at * call->weight_stride_bytes;
        }
        for (int64_t i = 0; i < columns; i += 32) {
            int64_t left = columns - i;
            turn(p, i / 2, v, rows, k + i, left < 32 ? (1u << left) - 1 : 0xffffffffu, load);
        }
    }
}

// The rows of W whose chunk is loaded next, asked for a few at each step through X: all at once they would hold up the loads of
// the chunk before.
struct ahead {
    const unsigned char *chunk;
    int64_t stride;
    int32_t row, rows, each;
};

// What follows columns [k, k + CHUNK) of the rows from `row` on: behind the last columns those of the next panel.
WEFT__INLINE struct ahead ahead_of(const struct weft__linear_call *call, int64_t row, int64_t k,
                                   int32_t cols, int bytes)
{
    const bool same = k + CHUNK < call->cols;
    const int64_t first = same ? row : row + PANEL_ROWS, left = call->rows - first;
    const int32_t steps = (cols + STEP_COLS - 1) / STEP_COLS;
    return (struct ahead){.chunk = call->weight + first * call->weight_stride_bytes +
                                   (same ? k + CHUNK : 0) * bytes,
                          .stride = call->weight_stride_bytes,
                          .rows = left < PANEL_ROWS ? (int32_t)(left > 0 ? left : 0) : PANEL_ROWS,
                          .each = (PANEL_ROWS + steps - 1) / steps};
}

WEFT__INLINE void ask_ahead(struct ahead *ahead, int bytes)
{
    for (int n = 0; n < ahead->each && ahead->row < ahead->rows; n++, ahead->row++)
        for (int i = 0; i < CHUNK * bytes; i += 64)
            __builtin_prefetch(ahead->chunk + ahead->row * ahead->stride + i);
}

WEFT__INLINE __m512 dot_pair(__m512 acc, __m512i w, const uint16_t *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)_mm512_set1_epi32(pair));
}

// A panel by `cols` rows of X from `col` on. `columns` is even: X is padded. Sixes are whole in memory; of single rows
// those past the last repeat it. What the next rows are is asked for meanwhile: of sixes from pair to pair. Their sums so far,
// which the second cache has, are asked for before they are needed.
WEFT__INLINE void multiply_chunk(struct panel *p, const struct weft__linear_call *call, int32_t col,
                                 int32_t last, int64_t at, int64_t k, int64_t columns, int cols,
                                 bool sixes)
{
    const int64_t stride = call->x_bf16_stride, wide = sixes ? STEP_COLS : 1;
    const uint16_t *x[STEP_COLS], *next = call->x_bf16 + (col + STEP_COLS) * stride + k * STEP_COLS;
    __m512 acc[STEP_COLS][VECTORS];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        x[c] = sixes ? call->x_bf16 + col * stride + k * STEP_COLS + 2 * c
                     : call->x_bf16 + (col + c < last ? col + c : last) * stride + k;
        WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
        {
            acc[c][v] = _mm512_setzero_ps();
            __builtin_prefetch(&p->acc[at + c][v], 1, 3);
        }
    }
    for (int c = 0; !sixes && c < cols; c++)
        for (int64_t i = 0; i < columns; i += 32)
            __builtin_prefetch(x[c] + cols * stride + i);
    for (int64_t i = 0; i < columns; i += 2) {
        if (sixes)
            __builtin_prefetch(next + i * STEP_COLS);
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
            {
                acc[c][v] = dot_pair(acc[c][v], p->w[i / 2][v], x[c] + i * wide);
            }
        }
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++) WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const __m512 before = _mm512_maskz_load_ps(k % FOLD == 0 ? 0 : 0xffff, &p->acc[at + c][v]);
        p->acc[at + c][v] = _mm512_add_ps(before, acc[c][v]);
    }
}

// Adds what acc has to the total, or begins it.
WEFT__INLINE void fold(struct panel *p, int32_t cols, bool first)
{
    for (int32_t c = 0; c < cols; c++)
        for (int v = 0; v < VECTORS; v++)
            p->total[c][v] = first ? p->acc[c][v] : _mm512_add_ps(p->total[c][v], p->acc[c][v]);
}

WEFT__INLINE void store_panel(const struct weft__linear_call *call, const struct panel *p,
                              bool folds, int64_t row, int64_t last, int32_t col, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++) {
        int64_t left = last + 1 - row;
        for (int v = 0; left > 0 && v < VECTORS; v++, left -= 16)
            weft__linear_store_lanes(call, col + c, row + 16 * v, left < 16 ? (int)left : 16,
                                     folds ? p->total[c][v] : p->acc[c][v]);
    }
}

// The panel at `row` by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void multiply_panel(const struct weft__linear_call *call, int64_t row, int64_t last,
                                 int32_t col, int32_t cols, load_fn *load, int bytes, bool sixes)
{
    struct panel p;
    const bool folds = call->cols > FOLD;
    for (int64_t k = 0; k < call->cols; k += CHUNK) {
        if (k > 0 && k % FOLD == 0)
            fold(&p, cols, k == FOLD);
        int64_t columns = call->cols - k < CHUNK ? call->cols - k : CHUNK;
        load_panel(&p, call, row, last, k, columns, load);
        columns += columns % 2;
        int32_t c = 0;
        int32_t end = col + cols - 1;
        struct ahead ahead = ahead_of(call, row, k, cols, bytes);
        for (; c + 4 < cols; c += 6) {
            ask_ahead(&ahead, bytes);
            multiply_chunk(&p, call, col + c, end, c, k, columns, 6, sixes);
        }
        ask_ahead(&ahead, bytes);
        if (c + 2 < cols)
            multiply_chunk(&p, call, col + c, end, c, k, columns, 4, sixes);
        else if (c < cols)
            multiply_chunk(&p, call, col + c, end, c, k, columns, 2, sixes);
    }
    if (folds)
        fold(&p, cols, false);
    store_panel(call, &p, folds, row, last, col, cols);
}

// Tiles of X of equal size, outermost: a tile stays in the caches while the panels pass.
WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           load_fn *load, int bytes, bool sixes)
{
    int32_t tiles = (call->batch + TILE_COLS - 1) / TILE_COLS;
    int32_t tile = (call->batch + tiles - 1) / tiles;
    tile = (tile + STEP_COLS - 1) / STEP_COLS * STEP_COLS;
    for (int32_t col = 0; col < call->batch; col += tile)
        for (int64_t row = row0; row < row1; row += PANEL_ROWS)
            multiply_panel(call, row, row + PANEL_ROWS < row1 ? row + PANEL_ROWS - 1 : row1 - 1,
                           col, call->batch - col < tile ? call->batch - col : tile, load, bytes,
                           sixes);
}

// `bytes` are those of a weight.
#define LINEAR_BF16(weight, acts, load, bytes, sixes)                                              \
    weft__linear_fn weft__linear_##weight##_##acts##_avx512bf16;                                   \
    void weft__linear_##weight##_##acts##_avx512bf16(const struct weft__linear_call *call,         \
                                                     int64_t row0, int64_t row1)                   \
    {                                                                                              \
        multiply(call, row0, row1, load, bytes, sixes);                                            \
    }

LINEAR_BF16(F32, bf16_panel, load_f32, 4, true)
LINEAR_BF16(F16, bf16_panel, load_f16, 2, true)
LINEAR_BF16(BF16, bf16_panel, load_bf16, 2, true)
LINEAR_BF16(F16, bf16_rows, load_f16, 2, false)
LINEAR_BF16(BF16, bf16_rows, load_bf16, 2, false)
