// SPDX-License-Identifier: MIT
// Weights of 16 bits, and of f32 that may be rounded, by bf16 activations for many rows of X (prefill), on the
// tiles of AMX: sixteen times the products of vdpbf16ps a cycle, so what counts is to feed them.
//
//      w[16 rows][step]   16 rows x 32 columns: rows of W as they lie, F16 and F32 rounded to bf16. Rows of bf16 that begin
//                         with a line are read in place
//      x[16 rows][step]   16 pairs of columns x 16 rows of X: turned once a run, by what narrows X
//      acc[x][w]          16 rows of W x 16 rows of X: a sum of its own of a chunk, turned when it is stored, with the
//                         last chunk
//
// Two tiles of W by two of X make four sums: a tile that is loaded is multiplied twice. The next rows of W are asked for
// meanwhile, a few lines at a time, as a burst would take all line buffers of the core. There are two ways:
//
//      long chunks    of 1024 columns, whose sums stay in tiles. W and X come from the second-level cache: where rows of X
//                     are so few that all of their columns stay there
//      short chunks   of 384, whose W stays in the first-level cache, two panels of it: one is multiplied while vectors make
//                     tiles of the next. X passes by it from the second-level cache with loads that leave the first alone, and
//                     stays there while the panels of a part pass; sums are added in vectors. Weights of 12 bits
//                     (linear_packed_bf16.h) go so by any number of rows: what they become is beside the products
#include "src/kernels/cpu/amx.h"
#include "src/kernels/linear/linear_bf16_avx512.h"
#include "src/kernels/linear/linear_packed_bf16_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    PANEL_ROWS = 32,
    SIXTEENS = PANEL_ROWS / 16,
    STEP = 32,            // columns of a tile
    CHUNK = 1024,         // columns whose products are a sum of their own
    STEPS = CHUNK / STEP, // in a chunk
    SHORT = 384,          // columns of a chunk that stays in the first cache
    LONG = 4096,          // columns of a row that is worth a stream
    X_ROWS = 32,          // of X that meet a panel at a time
    TILE_COLS = 512,      // rows of X that share a panel
    PART_PANELS =
        8, // that a chunk of these passes by, where not all of their columns stay in the cache
    TILE_ELEMS = 16 * STEP, // bf16 of a tile
    HALF = 8 * 16,          // sums of half a tile
    HALVES = X_ROWS / 16 * SIXTEENS * 2,
};

struct panel {
    union {
        _Alignas(64) uint16_t w[SIXTEENS][STEPS][16][STEP];
        _Alignas(64) uint16_t by_turns[2][SIXTEENS][SHORT / STEP][16]
                                      [STEP]; // of short chunks, and of those that come next
    };
    float acc[X_ROWS / 16][SIXTEENS][16][16]; // of one block of X
    float total[PART_PANELS][TILE_COLS / 16][SIXTEENS][16]
               [16]; // of the chunks, where there are more
};

// Columns [k, k + 32) of a row of W, of which the mask has those that are there.
typedef __m512i take_fn(const struct weft__linear_call *call, int64_t row, int64_t k,
                        __mmask32 mask);

#define TAKE(name, load)                                                                           \
    WEFT__INLINE __m512i name(const struct weft__linear_call *call, int64_t row, int64_t k,        \
                              __mmask32 mask)                                                      \
    {                                                                                              \
        return load(call->weight + row * call->weight_stride_bytes, k, mask);                      \
    }

TAKE(take_f32, load_f32)
TAKE(take_f16, load_f16)
TAKE(take_bf16, load_bf16)

// Weights of 12 bits are taken by units.
WEFT__INLINE __m512i take_codes(const struct weft__linear_call *call, int64_t row, int64_t k,
                                __mmask32 mask)
{
    (void)call;
    (void)row;
    (void)k;
    (void)mask;
    return _mm512_setzero_si512();
}

// As row r of the tiles from `to` on.
WEFT__INLINE void take_unit_to(uint16_t (*to)[16][STEP], int r,
                               const struct weft__linear_call *call, int64_t row, int64_t k)
{
    __m512i w[WEFT__CODES_COLS / STEP];
    take_unit(call, row, k, w);
    WEFT__UNROLL for (int g = 0; g < WEFT__CODES_COLS / STEP; g++)
    {
        _mm512_store_si512(to[g][r % 16], w[g]);
    }
}

// Columns [k, k + columns), at most a chunk, of the rows from `row` on; those past the last repeat it and are
// not stored. What is missing of 32 columns is zero.
WEFT__INLINE void load_panel(struct panel *p, const struct weft__linear_call *call, int64_t row,
                             int64_t last, int64_t k, int64_t columns, take_fn *take)
{
    for (int r = 0; r < PANEL_ROWS; r++) {
        int64_t at = row + r < last ? row + r : last;
        for (int64_t i = 0; take == take_codes && i < columns; i += WEFT__CODES_COLS)
            take_unit_to(&p->w[r / 16][i / STEP], r, call, at, k + i);
        for (int64_t i = 0; take != take_codes && i < columns; i += STEP) {
            int64_t left = columns - i;
            __m512i w = take(call, at, k + i, left < STEP ? (1u << left) - 1 : 0xffffffffu);
            _mm512_store_si512(p->w[r / 16][i / STEP][r % 16], w);
        }
    }
}

// Where tiles of W come from: the panel, or rows of bf16 as they lie.
struct w_tiles {
    const char *at[SIXTEENS];
    int64_t stride_bytes, step_bytes; // from row to row, from tile to tile
};

// The chunk of W that comes next, asked for from line to line.
struct ahead {
    const unsigned char *row;
    int64_t stride_bytes;
    int32_t line, lines, per_step; // of a row
};

WEFT__INLINE void ask_ahead(struct ahead *ahead)
{
    for (int32_t i = 0; i < ahead->per_step; i++) {
        _mm_prefetch((const char *)ahead->row + ahead->line * 64, _MM_HINT_T1);
        if (++ahead->line == ahead->lines) {
            ahead->line = 0;
            ahead->row += ahead->stride_bytes;
        }
    }
}

// A block of X by a panel whose products tiles have stored: those of the first chunk of several are totals, others are in
// p->acc and are added to the totals, or are stored with the last chunk.
struct block {
    int32_t left;                     // halves of tiles that are to be done
    float (*total)[SIXTEENS][16][16]; // of its first sixteen rows of X
    int64_t row, last;
    int32_t col, cols; // of X, at most X_ROWS
    bool begins, ends; // the totals
};

WEFT__INLINE float (*sums_of(struct panel *p, const struct block *b))[SIXTEENS][16][16]
{
    return b->begins && !b->ends ? b->total : p->acc;
}

static void store_tile(const struct weft__linear_call *call, const struct panel *p,
                       const struct block *b, int32_t tile)
{
    const int32_t x = tile / SIXTEENS, w = tile % SIXTEENS;
    const int64_t row = b->row + 16 * w, rows = b->last + 1 - row;
    if (rows <= 0 || b->cols <= 16 * x)
        return;
    vf32 v[16];
    vf32_load_transposed(p->acc[x][w][0], 16, v);
    for (int i = 0; i < 16 && 16 * x + i < b->cols; i++)
        store_results(call, b->col + 16 * x + i, row, rows < 16 ? (int)rows : 16, v[i]);
}

// The next half of a tile of a block.
WEFT__INLINE void finish_half(const struct weft__linear_call *call, struct panel *p,
                              struct block *b)
{
    const int32_t half = HALVES - b->left--;
    float *acc = p->acc[0][0][0] + half * HALF, *total = b->total[0][0][0] + half * HALF;
    float *to = b->ends ? acc : total;
    if (!b->begins)
        WEFT__UNROLL for (int i = 0; i < HALF; i += 16)
        {
            vf32_store(to + i, vf32_add(vf32_load(total + i), vf32_load(acc + i)));
        }
    if (b->ends && half % 2)
        store_tile(call, p, b, half / 2);
}

static void finish(const struct weft__linear_call *call, struct panel *p, struct block *b)
{
    while (b->left)
        finish_half(call, p, b);
}

// Four sums leave their tiles.
WEFT__INLINE void store_sums(float (*to)[SIXTEENS][16][16])
{
    tile_store(0, to[0][0]);
    tile_store(1, to[0][1]);
    tile_store(2, to[1][0]);
    tile_store(3, to[1][1]);
}

WEFT__INLINE void clear_sums(void)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
}

// The panel by the sixteen rows of X at x[0] and the sixteen at x[1], both from the chunk's first column on.
// Tiles multiply while vectors finish the block before.
static void multiply_chunk(const struct weft__linear_call *call, struct panel *p, struct w_tiles w,
                           const uint16_t *const x[2], int64_t steps, struct ahead *ahead,
                           struct block *before)
{
    const int64_t each = steps / HALVES + 1;
    clear_sums();
    for (int64_t i = 0, turn = 1; i < steps; i++, turn++) {
        ask_ahead(ahead);
        tile_load(4, w.at[0] + i * w.step_bytes, w.stride_bytes);
        tile_load_once(6, x[0] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 4, 6);
        tile_load(5, w.at[1] + i * w.step_bytes, w.stride_bytes);
        tile_dot_bf16(1, 5, 6);
        tile_load_once(7, x[1] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(2, 4, 7);
        tile_dot_bf16(3, 5, 7);
        if (turn == each && before->left) {
            finish_half(call, p, before);
            turn = 0;
        }
    }
    finish(call, p, before);
}

// Panels from row `row` to row `end`, from column k on.
struct place {
    int64_t row, end, k;
};

// Columns of the panel at `at`, at most `chunk`, to be asked for in so many steps.
WEFT__INLINE struct ahead ahead_at(const struct weft__linear_call *call, struct place at,
                                   int64_t chunk, int64_t steps, int bytes)
{
    const int64_t left = call->cols - at.k;
    const int32_t lines = (int32_t)(((left < chunk ? left : chunk) * bytes / STEP + 63) / 64);
    return (struct ahead){.row = call->weight + at.row * call->weight_stride_bytes +
                                 at.k / STEP * bytes,
                          .stride_bytes = call->weight_stride_bytes,
                          .lines = lines,
                          .per_step = (int32_t)((PANEL_ROWS * lines - 1) / steps + 1)};
}

// What comes after a panel's chunk: the next panel's, of the part's first the next columns, the next part.
static struct place after(const struct weft__linear_call *call, struct place part, struct place at,
                          int64_t chunk)
{
    if (at.row + PANEL_ROWS < part.end)
        return (struct place){at.row + PANEL_ROWS, part.end, at.k};
    if (at.k + chunk < call->cols)
        return (struct place){part.row, part.end, at.k + chunk};
    return (struct place){part.end, part.end, 0};
}

static struct w_tiles tiles_in_panel(const struct panel *p)
{
    return (struct w_tiles){
        {(const char *)p->w[0], (const char *)p->w[1]}, TILE_ROW_BYTES, sizeof p->w[0][0]};
}

static struct w_tiles tiles_in_rows(const struct weft__linear_call *call, int64_t row, int64_t k)
{
    const char *first = (const char *)call->weight + row * call->weight_stride_bytes + 2 * k;
    return (struct w_tiles){
        {first, first + 16 * call->weight_stride_bytes}, call->weight_stride_bytes, TILE_ROW_BYTES};
}

// A chunk of the panel at `row` of a part by rows [col, col + cols) of X, at most a tile; col is a multiple of X_ROWS. The last
// block is left in `block`.
WEFT__INLINE void multiply_panel(const struct weft__linear_call *call, struct panel *p, int64_t row,
                                 int64_t last, struct place part, int32_t col, int32_t cols,
                                 struct block *block, take_fn *take, int bytes, bool as_it_lies)
{
    const int64_t sixteens = (cols + 15) / 16, stride = call->x_bf16_stride, k = part.k;
    const uint16_t *x = call->x_bf16 + col / 16 * 16 * stride;
    const bool ends = k + CHUNK >= call->cols;
    const int64_t columns = ends ? call->cols - k : CHUNK, steps = (columns + STEP - 1) / STEP;
    struct ahead ahead = ahead_at(call, after(call, part, (struct place){row, part.end, k}, CHUNK),
                                  CHUNK, (sixteens + 1) / 2 * steps, bytes);
    const bool lies = as_it_lies && row + PANEL_ROWS - 1 <= last && columns % STEP == 0;
    const struct w_tiles w = lies ? tiles_in_rows(call, row, k) : tiles_in_panel(p);
    if (!lies)
        load_panel(p, call, row, last, k, columns, take);
    for (int64_t i = 0; i < sixteens; i += X_ROWS / 16) {
        const uint16_t *first = x + i * 16 * stride + 16 * k;
        const uint16_t *both[2] = {first, i + 1 < sixteens ? first + 16 * stride : first};
        const int32_t left = cols - (int32_t)i * 16;
        const struct block now = {.left = k == 0 && k + CHUNK < call->cols ? 0 : HALVES,
                                  .total = &p->total[(row - part.row) / PANEL_ROWS][i],
                                  .row = row,
                                  .last = last,
                                  .col = col + (int32_t)i * 16,
                                  .cols = left < X_ROWS ? left : X_ROWS,
                                  .begins = k == 0,
                                  .ends = k + CHUNK >= call->cols};
        multiply_chunk(call, p, w, both, steps, &ahead, block);
        store_sums(sums_of(p, &now));
        *block = now;
    }
}

// Panels of a task by a tile of X, one after the other.
WEFT__INLINE void multiply_longs(const struct weft__linear_call *call, struct panel *p,
                                 int64_t row0, int64_t row1, int32_t col, int32_t cols,
                                 struct block *block, take_fn *take, int bytes, bool as_it_lies)
{
    for (int64_t row = row0; row < row1; row += PANEL_ROWS) {
        const int64_t end = row + PANEL_ROWS < row1 ? row + PANEL_ROWS : row1;
        for (int64_t k = 0; k < call->cols; k += CHUNK)
            multiply_panel(call, p, row, end - 1, (struct place){row, end, k}, col, cols, block,
                           take, bytes, as_it_lies);
    }
}

// Rows of W on their way into tiles, those of the next panel; and those after them, which are asked for.
struct turning {
    uint16_t (*to)[SHORT / STEP][16][STEP];
    const struct weft__linear_call *call;
    const unsigned char *ask;
    int64_t first, k;
    int32_t columns, rows; // that are there; rows past the last repeat it
    int32_t row, each;     // rows that are done, and that are taken at a time
};

static struct turning turning_of(const struct weft__linear_call *call, struct panel *p,
                                 struct place at, struct place then, int64_t last, int buffer,
                                 int64_t blocks, int bytes)
{
    const int64_t left = call->cols - at.k;
    return (struct turning){
        .to = p->by_turns[buffer],
        .call = call,
        .ask = call->weight + then.row * call->weight_stride_bytes + then.k / STEP * bytes,
        .first = at.row,
        .k = at.k,
        .columns = (int32_t)(left < SHORT ? left : SHORT),
        .rows = (int32_t)(last - at.row < PANEL_ROWS ? last + 1 - at.row : PANEL_ROWS),
        .each = (int32_t)((PANEL_ROWS + blocks - 1) / blocks)};
}

// The same of 12 bits: their units, row by row, are divided among the steps.
WEFT__INLINE void turn_units(const struct turning *t, int64_t i)
{
    enum { UNITS = SHORT / WEFT__CODES_COLS, EACH = WEFT__CODES_COLS / STEP };
    for (int64_t n = i * t->each / EACH; n < (i + 1) * t->each / EACH; n++) {
        const int32_t r = t->row + (int32_t)n / UNITS, unit = (int32_t)n % UNITS;
        if (r >= PANEL_ROWS || unit * WEFT__CODES_COLS >= t->columns)
            continue;
        const unsigned char *ask =
            t->ask + r * t->call->weight_stride_bytes + unit * WEFT__CODES_BYTES;
        for (int line = 0; line < WEFT__CODES_BYTES; line += 64)
            _mm_prefetch((const char *)ask + line, _MM_HINT_T1);
        take_unit_to(&t->to[r / 16][EACH * unit], r, t->call,
                     t->first + (r < t->rows ? r : t->rows - 1), t->k + unit * WEFT__CODES_COLS);
    }
}

// Step i of the rows that are under way.
WEFT__INLINE void turn(const struct turning *t, int64_t i, take_fn *take, int bytes)
{
    if (take == take_codes) {
        turn_units(t, i);
        return;
    }
    const int64_t left = t->columns - i * STEP;
    const __mmask32 there = left >= STEP ? 0xffffffffu : left > 0 ? (1u << left) - 1 : 0;
    const int32_t end = t->row + t->each < PANEL_ROWS ? t->row + t->each : PANEL_ROWS;
    for (int32_t r = t->row; r < end; r++) {
        const int32_t row = r < t->rows ? r : t->rows - 1;
        _mm512_store_si512(t->to[r / 16][i][r % 16],
                           take(t->call, t->first + row, t->k + i * STEP, there));
        for (int line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)t->ask + r * t->call->weight_stride_bytes + i * bytes + line,
                         _MM_HINT_T1);
    }
}

// Two tiles of W by sixteen rows of X at x[0] and sixteen at x[1], all from a short chunk's first column on. Meanwhile vectors
// finish the block before and make tiles of the next panel.
WEFT__INLINE void multiply_short(const struct weft__linear_call *call, struct panel *p,
                                 uint16_t (*w)[SHORT / STEP][16][STEP], const uint16_t *const x[2],
                                 int64_t steps, const struct turning *next, struct block *before,
                                 take_fn *take, int bytes)
{
    clear_sums();
    for (int64_t i = 0; i < steps; i++) {
        tile_load(4, w[0][i], TILE_ROW_BYTES);
        tile_load_once(6, x[0] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 4, 6);
        tile_load(5, w[1][i], TILE_ROW_BYTES);
        tile_dot_bf16(1, 5, 6);
        tile_load_once(7, x[1] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(2, 4, 7);
        turn(next, i, take, bytes);
        tile_dot_bf16(3, 5, 7);
        if (i && before->left)
            finish_half(call, p, before);
    }
    for (int64_t i = steps; i < SHORT / STEP; i++)
        turn(next, i, take, bytes);
    finish(call, p, before);
}

// Panels of a task by a tile of X, part by part, in short chunks: the panel's tiles stay in the first cache while X passes
// by it from the second, and does not stay in the first.
WEFT__INLINE void multiply_shorts(const struct weft__linear_call *call, struct panel *p,
                                  int64_t row0, int64_t row1, int32_t col, int32_t cols,
                                  struct block *block, take_fn *take, int bytes)
{
    const int64_t blocks = (cols + X_ROWS - 1) / X_ROWS, stride = call->x_bf16_stride;
    // Few rows of X stay in the cache with all their columns: long rows of W are read to their end.
    const int64_t rows = blocks == 1 && call->cols >= LONG ? PANEL_ROWS : PART_PANELS * PANEL_ROWS;
    const uint16_t *x = call->x_bf16 + col / 16 * 16 * stride;
    struct place part = {row0, row1 - row0 < rows ? row1 : row0 + rows, 0}, at = part;
    struct turning next =
        turning_of(call, p, at, after(call, part, at, SHORT), row1 - 1, 0, 1, bytes);
    for (int64_t i = 0; i < SHORT / STEP; i++)
        turn(&next, i, take, bytes);
    for (int buffer = 0; at.row < row1; buffer = !buffer) {
        const struct place then = after(call, part, at, SHORT);
        const int64_t columns = call->cols - at.k < SHORT ? call->cols - at.k : SHORT;
        float(*total)[SIXTEENS][16][16] = p->total[(at.row - part.row) / PANEL_ROWS];
        if (then.row == part.end)
            part = (struct place){part.end, row1 - part.end < rows ? row1 : part.end + rows, 0};
        next = turning_of(call, p, then, after(call, part, then, SHORT), row1 - 1, !buffer, blocks,
                          bytes);
        if (then.row >= row1)
            next.row = PANEL_ROWS;
        tiles_written();
        for (int64_t i = 0; i < 2 * blocks; i += 2) {
            const uint16_t *first = x + i * 16 * stride + 16 * at.k;
            const int32_t left = cols - (int32_t)i * 16;
            const uint16_t *both[2] = {first, left > 16 ? first + 16 * stride : first};
            const struct block now = {.left = at.k == 0 && at.k + SHORT < call->cols ? 0 : HALVES,
                                      .total = total + i,
                                      .row = at.row,
                                      .last = row1 - 1,
                                      .col = col + (int32_t)i * 16,
                                      .cols = left < X_ROWS ? left : X_ROWS,
                                      .begins = at.k == 0,
                                      .ends = at.k + SHORT >= call->cols};
            multiply_short(call, p, p->by_turns[buffer], both, (columns + STEP - 1) / STEP, &next,
                           block, take, bytes);
            store_sums(sums_of(p, &now));
            *block = now;
            next.row += next.each;
        }
        at = then;
    }
}

// Rows of X that stay in the second-level cache while the panels pass: tiles of equal size. Where there are panels enough for
// their sums to be worth it, a chunk of their columns does.
static int32_t tile_cols(const struct weft__linear_call *call, bool shorts)
{
    int64_t most = shorts ? TILE_COLS : WEFT__TILED_X_BYTES / (2 * call->x_bf16_stride);
    most = most < 96 ? 96 : most < TILE_COLS ? most : TILE_COLS;
    int64_t tiles = (call->batch + most - 1) / most;
    int64_t tile = (call->batch + tiles - 1) / tiles;
    return (int32_t)((tile + X_ROWS - 1) / X_ROWS * X_ROWS);
}

WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           take_fn *take, int bytes, bool as_it_lies)
{
    struct panel p;
    struct block block = {0};
    const bool shorts = (take == take_codes && call->x_bf16_stride <= 1 << 16) ||
                        weft__linear_in_shorts(call->x_bf16_stride, call->run_batch, call->rows);
    const int32_t tile = tile_cols(call, shorts);
    // A row of a tile is a line.
    as_it_lies =
        as_it_lies &&
        ((uintptr_t)call->weight | (uint64_t)call->weight_stride_bytes) % TILE_ROW_BYTES == 0;
    tiles_begin(16);
    for (int32_t col = 0; col < call->batch; col += tile) {
        const int32_t cols = call->batch - col < tile ? call->batch - col : tile;
        if (shorts)
            multiply_shorts(call, &p, row0, row1, col, cols, &block, take, bytes);
        else
            multiply_longs(call, &p, row0, row1, col, cols, &block, take, bytes, as_it_lies);
    }
    finish(call, &p, &block);
    results_written(call);
    tiles_end();
}

// `bytes` are those of 32 weights; as_it_lies: they are what tiles take.
#define LINEAR_BF16(weight, acts, take, bytes, as_it_lies)                                         \
    weft__linear_fn weft__linear_##weight##_##acts##_amx;                                          \
    void weft__linear_##weight##_##acts##_amx(const struct weft__linear_call *call, int64_t row0,  \
                                              int64_t row1)                                        \
    {                                                                                              \
        multiply(call, row0, row1, take, bytes, as_it_lies);                                       \
    }

LINEAR_BF16(F32, bf16_panel, take_f32, 128, false)
LINEAR_BF16(F16, bf16_panel, take_f16, 64, false)
LINEAR_BF16(BF16, bf16_panel, take_bf16, 64, true)
LINEAR_BF16(BF16, bf16_packed, take_codes, WEFT__CODES_GROUP_BYTES, false)
