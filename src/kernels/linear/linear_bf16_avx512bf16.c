// SPDX-License-Identifier: MIT
// Weights of 16 bits, and of f32 that may be rounded, by bf16 activations for many rows of X (prefill):
// vdpbf16ps multiplies twice as many numbers as an f32 multiplication of the same width. Panels of 64 rows of W
// are turned round for each chunk of columns, so that a lane is a row of W and a broadcast pair of x meets 64
// rows.
//
//      w[pair][vector]      16 rows x 2 columns
//      acc[row of X][vector] 16 rows of f32, kept over the chunks
//
// All rows of a batch share a panel, so that W is read and turned once. Where X is made for one matrix, six rows of it
// lie in one another, 32 columns of each by turns: what a step reads is one stream.
//
// Some rows of X are multiplied without turning W (linear_bf16_lines_avx512.h). A few wait for memory anyway: they stay f32.
#include "src/kernels/linear/linear_bf16_lines_avx512.h"

enum {
    VECTORS = 4,
    PANEL_ROWS = 16 * VECTORS,
    CHUNK = 128,                  // columns whose products are a sum of their own
    STEP_COLS = WEFT__BF16_SIXES, // rows of X in registers
    TILE_COLS = 86 * STEP_COLS,   // rows of X that share a panel
    FOLD = 64 * CHUNK,            // columns whose chunks share a sum
    BLOCK_COLS = 32,              // that are turned together, of 16 rows
    ACROSS = CHUNK / BLOCK_COLS,
    BLOCKS = ACROSS * VECTORS
};

struct panel {
    __m512i w[2][CHUNK / 2][VECTORS]; // this chunk, and the next
    __m512 acc[TILE_COLS][VECTORS];
    __m512 total[TILE_COLS][VECTORS]; // of FOLD columns at a time
    float results[STEP_COLS][PANEL_ROWS];
};

// Rows of X that lie in one another, 32 columns of each by turns, of `step` elements a turn. Together, so that lines are
// written in order.
WEFT__INLINE void narrow(const void *x, weft_dtype dtype, int64_t at, int64_t x_stride, int rows,
                         int64_t cols, uint16_t *to, int64_t step)
{
    for (int64_t i = 0; i < cols; i += 32, to += step)
        for (int c = 0; c < rows; c++)
            _mm512_storeu_si512(to + 32 * c, bf16_row(x, dtype, at + c * x_stride + i, cols - i));
}

// Sixes of rows: 32 columns of the first, of the second, ... of the sixth, the next 32 of the first.
weft__narrow_fn weft__linear_narrow_avx512bf16;
void weft__linear_narrow_avx512bf16(const void *x, weft_dtype dtype, int64_t x_stride, int32_t rows,
                                    int64_t cols, int32_t m, uint16_t *to, int64_t stride)
{
    for (int32_t r = m, n; r < m + rows; r += n) {
        const int32_t in_six = r % STEP_COLS, left = m + rows - r;
        n = left < STEP_COLS - in_six ? left : STEP_COLS - in_six;
        narrow(x, dtype, (r - m) * x_stride, x_stride, n, cols,
               to + (r - in_six) * stride + in_six * 32, 32 * STEP_COLS);
    }
}

weft__narrow_fn weft__linear_narrow_rows_avx512bf16;
void weft__linear_narrow_rows_avx512bf16(const void *x, weft_dtype dtype, int64_t x_stride,
                                         int32_t rows, int64_t cols, int32_t m, uint16_t *to,
                                         int64_t stride)
{
    for (int32_t r = 0; r < rows; r++)
        narrow(x, dtype, r * x_stride, x_stride, 1, cols, to + (m + r) * stride, 32);
}

// A chunk of a panel of W on its way, a block of 16 rows by 32 columns after another: asked for, then turned
// round, beside the products of the chunk before.
struct coming {
    __m512i (*w)[VECTORS];     // NULL: it is only asked for, for whoever reads it next
    const unsigned char *from; // its first row and column
    int64_t stride_bytes, rows, columns;
    int32_t done, due; // of 2 * BLOCKS things; what has come due, in parts of a thing
};

// At most a panel of rows from `row` on, at most a chunk of columns from k on.
WEFT__INLINE struct coming coming_of(const struct weft__linear_call *call, int64_t row,
                                     int64_t last, int64_t k, int bytes, __m512i (*w)[VECTORS])
{
    const int64_t rows = last - row + 1, columns = call->cols - k;
    return (struct coming){.w = w,
                           .from = call->weight + row * call->weight_stride_bytes + k * bytes,
                           .stride_bytes = call->weight_stride_bytes,
                           .rows = rows < PANEL_ROWS ? rows : PANEL_ROWS,
                           .columns = columns < CHUNK ? columns : CHUNK};
}

// What is read after row `row` - 1, to be asked for.
WEFT__INLINE struct coming coming_behind(const struct weft__linear_call *call, int64_t row,
                                         int bytes)
{
    struct coming c = coming_of(call, row, call->rows - 1, 0, bytes, NULL);
    if (call->next && row >= call->next_from) {
        c.from = call->next;
        c.rows = PANEL_ROWS;
    }
    return c;
}

// The line of each last byte: where rows begin between lines, that of the first is the last of the block before.
WEFT__INLINE void ask_block(const struct coming *c, int32_t b, int bytes)
{
    const int64_t first = b / ACROSS * 16, k = b % ACROSS * BLOCK_COLS;
    const int64_t end = first + 16 < c->rows ? first + 16 : c->rows;
    for (int64_t r = first; r < end && k < c->columns; r++)
        for (int64_t i = k * bytes; i < (k + BLOCK_COLS) * bytes; i += 64)
            __builtin_prefetch(c->from + r * c->stride_bytes + i + 63, 0, 2);
}

// Rows past the last repeat it and are not stored. What is missing of 32 columns is zero.
WEFT__INLINE void turn_block(const struct coming *c, int32_t b, load_fn *load, int bytes)
{
    const int64_t first = b / ACROSS * 16, k = b % ACROSS * BLOCK_COLS;
    const int64_t left = c->columns - k, last = c->rows - 1;
    __m512 w[16];
    if (left <= 0)
        return;
    const unsigned char *from = c->from + first * c->stride_bytes + k * bytes;
    if (first + 15 <= last && left >= BLOCK_COLS) {
        WEFT__UNROLL for (int r = 0; r < 16; r++)
        {
            w[r] = _mm512_castsi512_ps(load(from + r * c->stride_bytes, 0, 0xffffffffu));
        }
    } else {
        const __mmask32 mask = left < BLOCK_COLS ? (1u << left) - 1 : 0xffffffffu;
        WEFT__UNROLL for (int r = 0; r < 16; r++)
        {
            const int64_t row = first + r < last ? r : last - first;
            w[r] = _mm512_castsi512_ps(load(from + row * c->stride_bytes, 0, mask));
        }
    }
    vf32_transpose(w);
    WEFT__UNROLL for (int i = 0; i < 16; i++)
    {
        c->w[k / 2 + i][first / 16] = _mm512_castps_si512(w[i]);
    }
}

// What is to be done of it beside one of `steps` steps: its lines are asked for in the first half, and come in
// the second. Counted without a division, which would cost as much as a hundredth of a step.
WEFT__INLINE void advance(struct coming *c, int32_t steps, load_fn *load, int bytes)
{
    for (c->due += 2 * BLOCKS; c->due >= steps; c->due -= steps, c->done++)
        if (c->done < BLOCKS)
            ask_block(c, c->done, bytes);
        else if (c->w)
            turn_block(c, c->done - BLOCKS, load, bytes);
}

WEFT__INLINE __m512 dot_pair(__m512 acc, __m512i w, const uint16_t *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)_mm512_set1_epi32(pair));
}

// What becomes of the sums of a chunk, which are p->acc's or join it: all that is left where a chunk is the last one is
// stored at once.
struct chunk {
    __m512i (*w)[VECTORS];
    int64_t k, columns; // even: X is padded
    bool begins, ends;  // a sum of several chunks; the columns
    bool folded;        // is there a total?
};

// acc[row of X][vector] of `cols` rows of X from `col` on to Y, or to whoever takes them, of those that there are.
WEFT__INLINE void store_sums(const struct weft__linear_call *call, struct panel *p,
                             const struct chunk *chunk, int64_t row, int64_t rows, int32_t col,
                             int32_t there, int64_t at, __m512 acc[STEP_COLS][VECTORS], int cols)
{
    struct weft__linear_call own;
    if (call->take) {
        own = *call;
        own.y = p->results[0] - col * PANEL_ROWS - row;
        own.y_stride = PANEL_ROWS;
    }
    const struct weft__linear_call *to = call->take ? &own : call;
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (c >= there)
            break;
        WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
        {
            const int64_t left = rows - 16 * v;
            __m512 sum = acc[c][v];
            if (chunk->folded)
                sum = _mm512_add_ps(p->total[at + c][v], sum);
            if (left >= 16)
                weft__linear_store_lanes(to, col + c, row + 16 * v, 16, sum);
            else if (left > 0)
                weft__linear_store_lanes(to, col + c, row + 16 * v, (int)left, sum);
        }
    }
    if (call->take)
        call->take(call->taker, p->results[0], PANEL_ROWS, col, there < cols ? there : cols, row,
                   rows);
}

// A panel of `rows` rows of W by `cols` rows of X from `col` on, of which `there` exist. Sixes are whole in
// memory; of single rows those past the last repeat it. What the next rows are is asked for meanwhile: of sixes
// line by line.
WEFT__INLINE void multiply_chunk(struct panel *p, const struct weft__linear_call *call,
                                 const struct chunk *chunk, int64_t row, int64_t rows, int32_t col,
                                 int32_t there, int64_t at, int cols, int64_t columns, bool sixes)
{
    const int64_t stride = call->x_bf16_stride, wide = sixes ? STEP_COLS : 1; // of 32 columns
    const int64_t k = chunk->k;
    const char *next = (const char *)(call->x_bf16 + (col + STEP_COLS) * stride + k * STEP_COLS);
    const char *next_acc = (const char *)p->acc[at + cols];
    const uint16_t *x[STEP_COLS];
    __m512 acc[STEP_COLS][VECTORS];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        x[c] = sixes ? call->x_bf16 + col * stride + k * STEP_COLS + 32 * c
                     : call->x_bf16 + (col + (c < there ? c : there - 1)) * stride + k;
        WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
        {
            acc[c][v] = _mm512_setzero_ps();
        }
    }
    for (int c = 0; c < cols && !sixes; c++)
        for (int64_t i = 0; i < columns; i += 32)
            __builtin_prefetch(x[c] + cols * stride + i);
    if (chunk->ends && !call->take)
        for (int c = 0; c < cols && c < there; c++)
            weft__linear_fetch_stores(call, col + c, row, rows);
    for (int64_t begin = 0; begin < columns; begin += 32) {
        const int64_t end = begin + 32 < columns ? begin + 32 : columns;
        WEFT__UNROLL for (int line = 0; line < STEP_COLS; line++)
        {
            if (sixes)
                __builtin_prefetch(next + begin * 2 * STEP_COLS + 64 * line);
            if (!chunk->begins)
                __builtin_prefetch(next_acc + begin * 2 * STEP_COLS + 64 * line);
        }
        const uint16_t *first = x[0] + begin * wide;
        __m512i(*w)[VECTORS] = chunk->w + begin / 2;
        for (int64_t i = begin; i < end; i += 2, w++, first += 2)
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                const uint16_t *pair = sixes ? first + 32 * c : first + (x[c] - x[0]);
                WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
                {
                    acc[c][v] = dot_pair(acc[c][v], (*w)[v], pair);
                }
            }
    }
    if (!chunk->begins)
        WEFT__UNROLL for (int c = 0; c < cols; c++) WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
        {
            acc[c][v] = _mm512_add_ps(p->acc[at + c][v], acc[c][v]);
        }
    if (chunk->ends) {
        store_sums(call, p, chunk, row, rows, col, there, at, acc, cols);
        return;
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++) WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
    {
        p->acc[at + c][v] = acc[c][v];
    }
}

// What acc has joins the total, or is it.
WEFT__INLINE void fold(struct panel *p, int32_t cols, bool first)
{
    for (int32_t c = 0; c < cols; c++)
        for (int v = 0; v < VECTORS; v++)
            p->total[c][v] = first ? p->acc[c][v] : _mm512_add_ps(p->total[c][v], p->acc[c][v]);
}

// What a task multiplies: rows [row0, row1) of W by rows [col, col + cols) of X, at most a tile.
struct task {
    const struct weft__linear_call *call;
    int64_t row0, row1;
    int32_t col, cols;
};

// A panel's products with the chunk at hand, while the next one comes.
WEFT__INLINE void multiply_rows(struct panel *p, const struct task *task, const struct chunk *chunk,
                                struct coming *coming, int64_t row, load_fn *load, int bytes,
                                bool sixes)
{
    const struct weft__linear_call *call = task->call;
    const int64_t left = task->row1 - row, rows = left < PANEL_ROWS ? left : PANEL_ROWS;
    const int32_t cols = task->cols, steps = (cols + STEP_COLS - 1) / STEP_COLS;
    int32_t c = 0;
    for (; c + 4 < cols; c += STEP_COLS) {
        advance(coming, steps, load, bytes);
        if (chunk->columns == CHUNK)
            multiply_chunk(p, call, chunk, row, rows, task->col + c, cols - c, c, STEP_COLS, CHUNK,
                           sixes);
        else
            multiply_chunk(p, call, chunk, row, rows, task->col + c, cols - c, c, STEP_COLS,
                           chunk->columns, sixes);
    }
    if (c < cols)
        advance(coming, steps, load, bytes);
    if (c + 2 < cols)
        multiply_chunk(p, call, chunk, row, rows, task->col + c, cols - c, c, 4, chunk->columns,
                       sixes);
    else if (c < cols)
        multiply_chunk(p, call, chunk, row, rows, task->col + c, cols - c, c, 2, chunk->columns,
                       sixes);
}

WEFT__INLINE void multiply_tile(struct panel *p, const struct task *task, load_fn *load, int bytes,
                                bool sixes)
{
    const struct weft__linear_call *call = task->call;
    int32_t now = 0; // of p->w
    struct coming coming = coming_of(call, task->row0, task->row1 - 1, 0, bytes, p->w[now]);
    advance(&coming, 1, load, bytes);
    for (int64_t row = task->row0, k = 0; row < task->row1; now = 1 - now) {
        const int64_t left = call->cols - k, columns = left < CHUNK ? left : CHUNK;
        const struct chunk chunk = {.w = p->w[now],
                                    .k = k,
                                    .columns = columns + columns % 2,
                                    .begins = k % FOLD == 0,
                                    .ends = left <= CHUNK,
                                    .folded = k >= FOLD};
        const int64_t next_row = chunk.ends ? row + PANEL_ROWS : row;
        const int64_t next_k = chunk.ends ? 0 : k + CHUNK;
        if (k > 0 && chunk.begins)
            fold(p, task->cols, k == FOLD);
        if (next_row < task->row1)
            coming = coming_of(call, next_row, task->row1 - 1, next_k, bytes, p->w[1 - now]);
        else
            coming = coming_behind(call, next_row, bytes);
        multiply_rows(p, task, &chunk, &coming, row, load, bytes, sixes);
        row = next_row;
        k = next_k;
    }
}

// Tiles of X of equal size, outermost: a tile stays in the caches while the panels pass.
WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           load_fn *load, int bytes, bool sixes)
{
    struct panel p;
    int32_t tiles = (call->batch + TILE_COLS - 1) / TILE_COLS;
    int32_t tile = (call->batch + tiles - 1) / tiles;
    tile = (tile + STEP_COLS - 1) / STEP_COLS * STEP_COLS;
    for (int32_t col = 0; col < call->batch; col += tile) {
        const int32_t left = call->batch - col;
        const struct task task = {call, row0, row1, col, left < tile ? left : tile};
        multiply_tile(&p, &task, load, bytes, sixes);
    }
}

// Those that ask far ahead have a text of their own.
WEFT__INLINE void lines(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                        load_fn *load, int bytes, bool sixes)
{
    struct lines_way way = {load, bytes, sixes, .near = true};
    if (call->asks_far) {
        multiply_lines(call, row0, row1, way);
        return;
    }
    way.near = false;
    way.in_place = load == load_bf16;
    multiply_lines(call, row0, row1, way);
}

// `bytes` are those of a weight. Absurdly long rows are no lines'.
#define LINEAR_BF16(weight, load, bytes)                                                           \
    weft__linear_fn weft__linear_##weight##_bf16_panel_avx512bf16;                                 \
    void weft__linear_##weight##_bf16_panel_avx512bf16(const struct weft__linear_call *call,       \
                                                       int64_t row0, int64_t row1)                 \
    {                                                                                              \
        multiply(call, row0, row1, load, bytes, true);                                             \
    }                                                                                              \
    weft__linear_fn weft__linear_##weight##_bf16_lines_avx512bf16;                                 \
    void weft__linear_##weight##_bf16_lines_avx512bf16(const struct weft__linear_call *call,       \
                                                       int64_t row0, int64_t row1)                 \
    {                                                                                              \
        if (call->cols <= LINES_COLS)                                                              \
            lines(call, row0, row1, load, bytes, true);                                            \
        else                                                                                       \
            weft__linear_##weight##_bf16_panel_avx512bf16(call, row0, row1);                       \
    }

// Bits do not depend on how a run is cut into calls.
#define LINEAR_BF16_ROWS(weight, load, bytes)                                                      \
    weft__linear_fn weft__linear_##weight##_bf16_rows_avx512bf16;                                  \
    void weft__linear_##weight##_bf16_rows_avx512bf16(const struct weft__linear_call *call,        \
                                                      int64_t row0, int64_t row1)                  \
    {                                                                                              \
        if (!call->invariant && call->run_batch <= LINES_BATCH && call->cols <= LINES_COLS)        \
            lines(call, row0, row1, load, bytes, false);                                           \
        else                                                                                       \
            multiply(call, row0, row1, load, bytes, false);                                        \
    }

LINEAR_BF16(F32, load_f32, 4)
LINEAR_BF16(F16, load_f16, 2)
LINEAR_BF16(BF16, load_bf16, 2)
LINEAR_BF16_ROWS(F16, load_f16, 2)
LINEAR_BF16_ROWS(BF16, load_bf16, 2)
