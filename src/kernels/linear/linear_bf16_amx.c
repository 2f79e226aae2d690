// SPDX-License-Identifier: MIT
// Weights of 16 bits, and of f32 that may be rounded, by bf16 activations for many rows of X (prefill), on the tiles of AMX: sixteen times the
// products of vdpbf16ps a cycle, so what counts is to feed them.
//
//      w[16 rows][step]   16 rows x 32 columns: rows of W as they lie, F16 and F32 rounded to bf16
//      x[16 rows][step]   16 pairs of columns x 16 rows of X: turned once a run, by what narrows X
//      acc[x][w]          16 rows of W x 16 rows of X, kept over the chunks, turned when they are stored: with the last
//                         chunk, while they are in the first-level cache
//
// A chunk of W stays in the first-level cache while the rows of X stream past from the second; the next chunk is
// asked for meanwhile, a few lines at a time, as a burst would take all line buffers of the core. Two tiles of W by
// two of X make four sums: a tile that is loaded is multiplied twice.
#include "src/kernels/cpu/amx.h"
#include "src/kernels/linear/linear_bf16_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    PANEL_ROWS = 32,
    SIXTEENS = PANEL_ROWS / 16,
    STEP = 32,              // columns of a tile
    CHUNK = 128,            // columns of a panel that are in the first-level cache
    STEPS = CHUNK / STEP,   // in a chunk
    X_ROWS = 32,            // of X that meet a panel at a time
    TILE_COLS = 256,        // rows of X that share a panel
    FOLD = 1024,            // columns whose products are a sum of their own
    TILE_ELEMS = 16 * STEP, // bf16 of a tile
    AHEAD = 4 * STEP,       // columns of X that are asked for ahead when it is narrowed
};

struct panel {
    _Alignas(64) uint16_t w[SIXTEENS][STEPS][16][STEP];
    float acc[TILE_COLS / 16][SIXTEENS][16][16];
    float total[TILE_COLS / 16][SIXTEENS][16][16]; // of FOLD columns at a time
};

// Rows [m, m + rows) of one sixteen: its tiles of 32 columns lie one after another, in a tile pair beside pair, in a pair
// row beside row.
static void narrow_sixteen(const float *x, int64_t x_stride, int32_t rows, int64_t cols, int32_t m,
                           uint16_t *to, int64_t stride)
{
    uint16_t *tile = to + m / 16 * 16 * stride;
    for (int64_t i = 0; i < cols; i += STEP, tile += TILE_ELEMS) {
        _Alignas(64) uint16_t row[16][STEP] = {{0}};
        vf32 pairs[16];
        for (int r = 0; r < rows; r++) {
            const float *from = x + r * x_stride + i;
            _mm_prefetch((const char *)(from + AHEAD), _MM_HINT_T0);
            _mm_prefetch((const char *)(from + AHEAD + 16), _MM_HINT_T0);
            _mm512_store_si512(row[r], narrow_row(from, cols - i));
        }
        vf32_load_transposed((const float *)(const void *)row, 16, pairs);
        for (int p = 0; p < 16; p++)
            vf32_store_n((float *)(void *)(tile + p * STEP) + m % 16, pairs[p], rows);
    }
}

weft__narrow_fn weft__linear_narrow_amx;
void weft__linear_narrow_amx(const float *x, int64_t x_stride, int32_t rows, int64_t cols,
                             int32_t m, uint16_t *to, int64_t stride)
{
    for (const int32_t end = m + rows; m < end;) {
        const int32_t room = 16 - m % 16, n = room < end - m ? room : end - m;
        narrow_sixteen(x, x_stride, n, cols, m, to, stride);
        m += n;
        x += n * x_stride;
    }
}

// Columns [k, k + columns), at most a chunk, of the rows from `row` on; those past the last repeat it and are
// not stored. What is missing of 32 columns is zero.
WEFT__INLINE void load_panel(struct panel *p, const struct weft__linear_call *call, int64_t row,
                             int64_t last, int64_t k, int64_t columns, load_fn *load)
{
    for (int r = 0; r < PANEL_ROWS; r++) {
        int64_t at = row + r < last ? row + r : last;
        const unsigned char *from = call->weight + at * call->weight_stride_bytes;
        for (int64_t i = 0; i < columns; i += STEP) {
            int64_t left = columns - i;
            __m512i w = load(from, k + i, left < STEP ? (1u << left) - 1 : 0xffffffffu);
            _mm512_store_si512(p->w[r / 16][i / STEP][r % 16], w);
        }
    }
}

// The chunk of W that comes next, asked for from line to line.
struct ahead {
    const unsigned char *weight;
    int64_t stride_bytes;
    int32_t line, per_step;
    int row_bits; // a row has 1 << row_bits lines
};

WEFT__INLINE void ask_ahead(struct ahead *ahead)
{
    for (int32_t i = 0; i < ahead->per_step; i++, ahead->line++)
        _mm_prefetch((const char *)ahead->weight +
                         (ahead->line >> ahead->row_bits) * ahead->stride_bytes +
                         (ahead->line & ((1 << ahead->row_bits) - 1)) * 64,
                     _MM_HINT_T1);
}

// The panel by the sixteen rows of X at x[0] and the sixteen at x[1], both from column k on; a sum of its own `begins`, or
// goes on.
static void multiply_chunk(struct panel *p, const uint16_t *const x[2], int64_t at, int64_t steps,
                           bool begins, struct ahead *ahead)
{
    if (begins) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        tile_load(0, p->acc[at][0], TILE_ROW_BYTES);
        tile_load(1, p->acc[at][1], TILE_ROW_BYTES);
        tile_load(2, p->acc[at + 1][0], TILE_ROW_BYTES);
        tile_load(3, p->acc[at + 1][1], TILE_ROW_BYTES);
    }
    for (int64_t i = 0; i < steps; i++) {
        ask_ahead(ahead);
        tile_load(4, p->w[0][i], TILE_ROW_BYTES);
        tile_load(6, x[0] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 4, 6);
        tile_load(5, p->w[1][i], TILE_ROW_BYTES);
        tile_dot_bf16(1, 5, 6);
        tile_load(7, x[1] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(2, 4, 7);
        tile_dot_bf16(3, 5, 7);
    }
    tile_store(0, p->acc[at][0]);
    tile_store(1, p->acc[at][1]);
    tile_store(2, p->acc[at + 1][0]);
    tile_store(3, p->acc[at + 1][1]);
}

// Adds the sums of two sixteens to their totals, which begin with the first.
static void fold(struct panel *p, int64_t at, bool first)
{
    for (int64_t i = at; i < at + 2; i++)
        for (int w = 0; w < SIXTEENS; w++)
            for (int r = 0; r < 16; r++) {
                const vf32 sum = vf32_load(p->acc[i][w][r]);
                vf32_store(p->total[i][w][r],
                           first ? sum : vf32_add(vf32_load(p->total[i][w][r]), sum));
            }
}

// Stores the results of `cols` rows of X, at most two sixteens; `whole`: sums are totals.
static void store_block(const struct weft__linear_call *call, const struct panel *p, int64_t at,
                        bool whole, int64_t row, int64_t last, int32_t col, int32_t cols)
{
    for (int32_t c = 0; c < cols; c += 16)
        for (int w = 0; w < SIXTEENS && row + 16 * w <= last; w++) {
            const float(*from)[16] = whole ? p->total[at + c / 16][w] : p->acc[at + c / 16][w];
            vf32 v[16];
            int64_t rows = last + 1 - row - 16 * w;
            for (int r = 0; r < 16; r++)
                v[r] = vf32_load(from[r]);
            vf32_transpose(v);
            for (int i = 0; i < 16 && c + i < cols; i++)
                weft__linear_store_lanes(call, col + c + i, row + 16 * w,
                                         rows < 16 ? (int)rows : 16, v[i]);
        }
}

// The chunk after the one at `row` and k: of the same rows, else of the next panel.
WEFT__INLINE struct ahead ahead_of(const struct weft__linear_call *call, int64_t row, int64_t k,
                                   int64_t blocks, int bytes)
{
    const int32_t lines = CHUNK * bytes / 64;
    int64_t next_row = k + CHUNK < call->cols ? row : row + PANEL_ROWS;
    int64_t next_k = k + CHUNK < call->cols ? k + CHUNK : 0;
    return (struct ahead){.weight =
                              call->weight + next_row * call->weight_stride_bytes + bytes * next_k,
                          .stride_bytes = call->weight_stride_bytes,
                          .row_bits = __builtin_ctz((unsigned)lines),
                          .per_step = (int32_t)((PANEL_ROWS * lines - 1) / (blocks * STEPS) + 1)};
}

// The panel at `row` by rows [col, col + cols) of X, at most a tile; col is a multiple of X_ROWS.
WEFT__INLINE void multiply_panel(const struct weft__linear_call *call, struct panel *p, int64_t row,
                                 int64_t last, int32_t col, int32_t cols, load_fn *load, int bytes)
{
    const int64_t sixteens = (cols + 15) / 16, stride = call->x_bf16_stride;
    const uint16_t *x = call->x_bf16 + col / 16 * 16 * stride;
    for (int64_t k = 0; k < call->cols; k += CHUNK) {
        const bool ends = k + CHUNK >= call->cols, folds = call->cols > FOLD;
        int64_t columns = call->cols - k < CHUNK ? call->cols - k : CHUNK;
        struct ahead ahead = ahead_of(call, row, k, (sixteens + 1) / 2, bytes);
        load_panel(p, call, row, last, k, columns, load);
        for (int64_t i = 0; i < sixteens; i += 2) {
            const uint16_t *first = x + i * 16 * stride + 16 * k;
            const uint16_t *both[2] = {first, i + 1 < sixteens ? first + 16 * stride : first};
            multiply_chunk(p, both, i, (columns + STEP - 1) / STEP, k % FOLD == 0, &ahead);
            if (folds && (ends || (k + CHUNK) % FOLD == 0))
                fold(p, i, k < FOLD);
            if (ends)
                store_block(call, p, i, folds, row, last, col + (int32_t)i * 16,
                            cols - (int32_t)i * 16 < X_ROWS ? cols - (int32_t)i * 16 : X_ROWS);
        }
    }
}

// Rows of X that stay in the second-level cache while the panels pass: tiles of equal size.
static int32_t tile_cols(const struct weft__linear_call *call)
{
    const int64_t cache_bytes = 1280 * 1024;
    int64_t most = cache_bytes / (2 * call->x_bf16_stride);
    most = most < 96 ? 96 : most < TILE_COLS ? most : TILE_COLS;
    int64_t tiles = (call->batch + most - 1) / most;
    int64_t tile = (call->batch + tiles - 1) / tiles;
    return (int32_t)((tile + X_ROWS - 1) / X_ROWS * X_ROWS);
}

WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           load_fn *load, int bytes)
{
    struct panel p;
    int32_t tile = tile_cols(call);
    tiles_begin(16);
    for (int32_t col = 0; col < call->batch; col += tile)
        for (int64_t row = row0; row < row1; row += PANEL_ROWS)
            multiply_panel(call, &p, row, row + PANEL_ROWS < row1 ? row + PANEL_ROWS - 1 : row1 - 1,
                           col, call->batch - col < tile ? call->batch - col : tile, load, bytes);
    tiles_end();
}

// `bytes` are those of a weight.
#define LINEAR_BF16(weight, load, bytes)                                                           \
    weft__linear_fn weft__linear_##weight##_bf16_panel_amx;                                        \
    void weft__linear_##weight##_bf16_panel_amx(const struct weft__linear_call *call,              \
                                                int64_t row0, int64_t row1)                        \
    {                                                                                              \
        multiply(call, row0, row1, load, bytes);                                                   \
    }

LINEAR_BF16(F32, load_f32, 4)
LINEAR_BF16(F16, load_f16, 2)
LINEAR_BF16(BF16, load_bf16, 2)
