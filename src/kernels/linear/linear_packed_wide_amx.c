// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by many rows of X on the tiles of AMX, in bf16. Codes of blocks times their
// scales, less their minima, become bf16 once for all rows of X, so sums stay in tiles: no scale and no minimum is left
// for the loop (of int8 tiles, linear_packed_amx.c, these are most of it).
//
//      w[step][panel]   32 columns of 16 rows: 16 pairs of columns, a lane is a row of W
//      x[step]          16 rows by the same columns, as they lie; of a chunk tile after tile, sixteen after sixteen,
//                       chunk after chunk
//      total[panel][m]  sums of the chunks before, which tiles go on with
//
// A chunk of 512 columns of two panels lies in the first cache and passes by all rows of X, whose columns of a chunk lie in the
// second. Beside the products of a block of 32 by 32 vectors unpack the next panels, a few codes with each step, and store
// what the block before has become; the sums that come next are asked for.
#include "src/base/checked.h"
#include "src/kernels/cpu/amx.h"
#include "src/kernels/linear/linear_bf16_avx512.h"
#include "src/kernels/linear/linear_packed_groups_avx512.h"
#include "src/kernels/linear/linear_packed_wide.h"
#include "src/kernels/linear/linear_store.h"

enum {
    PANELS = 2,       // that are unpacked together
    STEP = 32,        // columns of a tile
    CHUNK = 512,      // columns that are unpacked together
    X_STEP = 16,      // rows of X in a tile
    PAIR = 2,         // tiles of X that meet the panels together
    X_ROWS = 512,     // that share what is unpacked
    PART_PANELS = 32, // that pass by these
    TILE_ELEMS = X_STEP * STEP,
};

struct tiles {
    _Alignas(64) uint16_t w[2][CHUNK / STEP][PANELS][TILE_ELEMS]; // these, and those that come next
    _Alignas(64) float total[PART_PANELS][X_ROWS][16];
};

// What an unpacked group becomes bf16 by.
struct widening {
    int offset;  // that codes are too large by
    bool halves; // a scale for each 16 columns
    int minimum; // times this is taken off, if it is not 0
};

// Byte `at` of each lane.
WEFT__INLINE __m512 column(__m512i codes, int at)
{
    const __m512i top = at < 3 ? _mm512_slli_epi32(codes, (unsigned)(24 - 8 * at)) : codes;
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
}

// Chunks of a pair of panels on their way into tiles, an eighth of a group at a time: four columns of 16 rows.
struct unpacking {
    const unsigned char *chunk, *codes; // of the group under way
    const unsigned char *second;        // of the pair, or NULL
    uint16_t (*first)[PANELS][TILE_ELEMS], (*tile)[PANELS][TILE_ELEMS];
    int32_t groups, left; // of a panel, and of this one
    int32_t group, eighth;
    struct head head;
    struct group at;
    __m512 less[2]; // the minima
};

WEFT__INLINE void put_eighth(const struct unpacking *u, struct widening how)
{
    const __m512i beside =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const int half = how.halves ? u->eighth / 4 : 0;
    const __m512 scale = u->at.scale[half];
    const __m512i codes =
        how.offset ? _mm512_sub_epi8(u->at.w[u->eighth], _mm512_set1_epi8((char)how.offset))
                   : u->at.w[u->eighth];
    uint16_t *to = (*u->tile)[0] + u->eighth * 2 * STEP;
    __m512 w[4];
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        w[i] = how.minimum ? _mm512_fmsub_ps(column(codes, i), scale, u->less[half])
                           : _mm512_mul_ps(column(codes, i), scale);
    }
    _mm512_store_si512(to, _mm512_permutexvar_epi16(beside, narrow32(w[0], w[1])));
    _mm512_store_si512(to + STEP, _mm512_permutexvar_epi16(beside, narrow32(w[2], w[3])));
}

WEFT__INLINE void take_minima(struct unpacking *u, struct widening how)
{
    for (int i = 0; how.minimum && i <= how.halves; i++)
        u->less[i] = how.minimum > 1
                         ? _mm512_mul_ps(u->at.minimum[i], _mm512_set1_ps((float)how.minimum))
                         : u->at.minimum[i];
}

// The group is done: the next, of the next chunk, of the second panel. A chunk has `groups` of them.
WEFT__INLINE void pass_group(struct unpacking *u, int groups)
{
    u->eighth = 0;
    u->tile++;
    if (++u->group == groups) {
        u->group = 0;
        u->chunk = u->codes;
    }
    if (--u->left || !u->second)
        return;
    u->chunk = u->second;
    u->second = NULL;
    u->tile = (uint16_t(*)[PANELS][TILE_ELEMS])(*u->first)[1];
    u->left = u->groups;
    u->group = 0;
}

// So many eighths, or what is left.
typedef void widen_fn(struct unpacking *u, int64_t eighths);

#define WIDEN(ID, unpack_, begin_, ...)                                                            \
    static __attribute__((noinline)) void widen_##ID(struct unpacking *u, int64_t eighths)         \
    {                                                                                              \
        const struct weft__packed_shape shape = weft__packed_shape(WEFT_##ID);                     \
        const struct widening how = {__VA_ARGS__};                                                 \
        for (; eighths && u->left; eighths--) {                                                    \
            if (!u->eighth) {                                                                      \
                if (!u->group) {                                                                   \
                    begin_(u->chunk, &u->head);                                                    \
                    u->codes = u->chunk + shape.head_bytes;                                        \
                }                                                                                  \
                unpack_(u->chunk, u->codes, u->group, &u->head, &u->at);                           \
                u->codes += shape.group_bytes;                                                     \
                take_minima(u, how);                                                               \
            }                                                                                      \
            put_eighth(u, how);                                                                    \
            if (++u->eighth == 8)                                                                  \
                pass_group(u, shape.cols / STEP);                                                  \
        }                                                                                          \
    }

WIDEN(Q4_0, unpack_q4_0, begin_blocks, .offset = 8)
WIDEN(Q8_0, unpack_q8_0, begin_blocks, .offset = 128)
WIDEN(Q4_1, unpack_q4_1, begin_blocks, .minimum = 1)
WIDEN(Q5_0, unpack_q5_0, begin_blocks, .offset = 16)
WIDEN(Q5_1, unpack_q5_1, begin_blocks, .minimum = 1)
WIDEN(IQ4_NL, unpack_iq4_nl, begin_blocks, .offset = 128)
WIDEN(Q4_K, unpack_q4_k, begin_q45_k, .minimum = 1)
WIDEN(Q5_K, unpack_q5_k, begin_q45_k, .minimum = 1)
WIDEN(Q6_K, unpack_q6_k, begin_q6_k, .offset = 32, .halves = true)
WIDEN(Q2_K, unpack_q2_k, begin_q2_k, .halves = true, .minimum = 32)
WIDEN(Q3_K, unpack_q3_k, begin_q3_k, .offset = 4, .halves = true)
WIDEN(IQ4_XS, unpack_iq4_xs, begin_iq4_xs, .offset = 128)
WIDEN(MXFP4, unpack_mxfp4, begin_blocks, .offset = 16)

static widen_fn *widen_of(weft_dtype dtype)
{
    switch (dtype) {
#define WIDEN_CASE(ID, ...)                                                                        \
    case WEFT_##ID: return widen_##ID;
        WEFT__PACKED_MAP(WIDEN_CASE)
#undef WIDEN_CASE
    default: return NULL;
    }
}

// Sums of a pair of tiles of X by both panels that are complete, on their way to y.
struct results {
    const float (*total)[X_ROWS][16]; // of the first row of X
    int64_t row, end;                 // of W
    int32_t col, cols;                // of X
    int32_t line, lines;              // that are done, and all: a row of X by a panel each
};

WEFT__INLINE void store_line(const struct weft__linear_call *call, struct results *r)
{
    const int32_t c = r->line / PANELS, panel = r->line % PANELS;
    const int64_t row = r->row + panel * WEFT__PACKED_ROWS, left = r->end - row;
    const __m512 sums = _mm512_load_ps(r->total[panel][c]);
    r->line++;
    if (left >= WEFT__PACKED_ROWS)
        store_results(call, r->col + c, row, WEFT__PACKED_ROWS, sums);
    else if (left > 0)
        store_results(call, r->col + c, row, (int)left, sums);
}

static void store_lines(const struct weft__linear_call *call, struct results *r)
{
    while (r->line < r->lines)
        store_line(call, r);
}

// What vectors do beside the products of a block.
struct beside {
    widen_fn *widen;
    struct unpacking next; // panels
    int64_t eighths;       // of those, with each step
    struct results before; // of the block before
};

// Sums of the next block, asked for from step to step: tiles would wait for them.
WEFT__INLINE void ask_sums(const float (*next)[X_ROWS][16], int64_t step)
{
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        _mm_prefetch((const char *)next[0][2 * step + i], _MM_HINT_T0);
        _mm_prefetch((const char *)next[1][2 * step + i], _MM_HINT_T0);
    }
}

// One tile of X at x[0], or two, by both panels.
WEFT__INLINE void multiply_block(const struct weft__linear_call *call,
                                 uint16_t (*w)[PANELS][TILE_ELEMS], const uint16_t *const x[PAIR],
                                 int64_t steps, float (*total)[X_ROWS][16],
                                 const float (*next)[X_ROWS][16], bool begins, bool two,
                                 struct beside *beside)
{
    enum { LINES = 4 }; // of results, with each step
    if (begins) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        tile_load(0, total[0][0], 64);
        tile_load(1, total[1][0], 64);
        tile_load(2, total[0][two * X_STEP], 64);
        tile_load(3, total[1][two * X_STEP], 64);
    }
    for (int64_t i = 0; i < steps; i++) {
        tile_load(6, w[i][0], TILE_ROW_BYTES);
        tile_load_once(4, x[0] + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 4, 6);
        ask_sums(next, i);
        tile_load(7, w[i][1], TILE_ROW_BYTES);
        tile_dot_bf16(1, 4, 7);
        if (two) {
            tile_load_once(5, x[1] + i * TILE_ELEMS, TILE_ROW_BYTES);
            tile_dot_bf16(2, 5, 6);
        }
        beside->widen(&beside->next, beside->eighths);
        if (two)
            tile_dot_bf16(3, 5, 7);
        for (int n = 0; n < LINES && beside->before.line < beside->before.lines; n++)
            store_line(call, &beside->before);
    }
    store_lines(call, &beside->before);
    tile_store(0, total[0][0]);
    tile_store(1, total[1][0]);
    if (two) {
        tile_store(2, total[0][X_STEP]);
        tile_store(3, total[1][X_STEP]);
    }
}

// A part: rows [row, end) of W by rows [col, col + cols) of X, at most X_ROWS.
struct part {
    int64_t row, end;
    int32_t col, cols;
};

WEFT__INLINE int64_t columns_at(const struct weft__linear_call *call, int64_t k)
{
    return call->cols - k < CHUNK ? call->cols - k : CHUNK;
}

// Panels n and n + 1 of a part from column k on are to become tiles at `to`. Field by field, as the rest of u is large.
static void begin_pair(struct unpacking *u, const struct weft__linear_call *call,
                       const struct part *part, int64_t n, int64_t k,
                       uint16_t (*to)[PANELS][TILE_ELEMS])
{
    const struct weft__packed_shape shape = weft__packed_shape(call->dtype);
    const int64_t panel_bytes = weft__packed_panel_bytes(shape, call->cols),
                  row = part->row + n * WEFT__PACKED_ROWS;
    u->chunk =
        call->weight + row / WEFT__PACKED_ROWS * panel_bytes + weft__packed_panel_bytes(shape, k);
    u->second = row + WEFT__PACKED_ROWS < part->end ? u->chunk + panel_bytes : NULL;
    u->first = u->tile = to;
    u->groups = u->left = (int32_t)(columns_at(call, k) / STEP);
    u->group = u->eighth = 0;
}

// A pair of panels at w from column k on, by all rows of X of a part. `then`: sums that are wanted next.
static void multiply_pair(const struct weft__linear_call *call, struct tiles *p,
                          const struct part *part, int64_t n, int64_t k,
                          uint16_t (*w)[PANELS][TILE_ELEMS], const float (*then)[X_ROWS][16],
                          struct beside *beside)
{
    const int64_t columns = columns_at(call, k), steps = columns / STEP;
    const uint16_t *const chunk = call->x_tiles + k * call->x_tiles_rows;
    const bool ends = k + CHUNK >= call->cols;
    for (int32_t c = 0; c < part->cols; c += PAIR * X_STEP) {
        const int32_t left = part->cols - c, cols = left < PAIR * X_STEP ? left : PAIR * X_STEP;
        const uint16_t *first = chunk + (part->col + c) * columns;
        const uint16_t *const x[PAIR] = {first, first + X_STEP * columns};
        float(*total)[X_ROWS][16] = (float(*)[X_ROWS][16])p->total[n][c];
        const float(*next)[X_ROWS][16] =
            left > PAIR * X_STEP ? (const float(*)[X_ROWS][16])total[0][PAIR * X_STEP] : then;
        if (cols > X_STEP)
            multiply_block(call, w, x, steps, total, next, k == 0, true, beside);
        else
            multiply_block(call, w, x, steps, total, next, k == 0, false, beside);
        if (ends)
            beside->before = (struct results){.total = (const float(*)[X_ROWS][16])total,
                                              .row = part->row + n * WEFT__PACKED_ROWS,
                                              .end = part->end,
                                              .col = part->col + c,
                                              .cols = cols,
                                              .lines = PANELS * cols};
    }
}

static void multiply_part(const struct weft__linear_call *call, struct tiles *p,
                          const struct part *part, struct beside *beside)
{
    const int64_t count = weft__ceil_div(part->end - part->row, WEFT__PACKED_ROWS),
                  blocks = weft__ceil_div(part->cols, PAIR * X_STEP);
    int buffer = 0;
    begin_pair(&beside->next, call, part, 0, 0, p->w[buffer]);
    for (int64_t k = 0; k < call->cols; k += CHUNK)
        for (int64_t n = 0; n < count; n += PANELS, buffer = !buffer) {
            const bool more = n + PANELS < count; // of these columns
            const int64_t next_n = more ? n + PANELS : 0, next_k = more ? k : k + CHUNK;
            beside->widen(&beside->next, INT64_MAX);
            if (next_k < call->cols)
                begin_pair(&beside->next, call, part, next_n, next_k, p->w[!buffer]);
            beside->eighths =
                weft__ceil_div(PANELS * 8 * beside->next.left, blocks * columns_at(call, k) / STEP);
            tiles_written();
            multiply_pair(call, p, part, n, k, p->w[buffer],
                          (const float(*)[X_ROWS][16])p->total[next_n], beside);
        }
    store_lines(call, &beside->before);
}

// 32 columns of a row as bf16.
WEFT__INLINE __m512i widened(const int8_t *q, __m512 scale)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)q);
    const __m512i low = _mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes)),
                  high = _mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1));
    return narrow32(_mm512_mul_ps(_mm512_cvtepi32_ps(low), scale),
                    _mm512_mul_ps(_mm512_cvtepi32_ps(high), scale));
}

// The tile of rows [m, m + 16) and columns [k, k + 32).
WEFT__INLINE uint16_t *tile_at(uint16_t *to, int64_t all, int64_t cols, int32_t m, int64_t k)
{
    const int64_t first = k / CHUNK * CHUNK, columns = cols - first < CHUNK ? cols - first : CHUNK;
    return to + first * all + m / X_STEP * X_STEP * columns + X_STEP * (k - first);
}

static void lay_rounded(const struct weft__rounded *x, int32_t m, int32_t rows, int64_t cols,
                        uint16_t *to, int64_t all)
{
    for (int64_t k = 0; k < cols; k += STEP) {
        uint16_t *tile = tile_at(to, all, cols, m, k);
        for (int32_t r = 0; r < rows; r++) {
            const struct weft__rounded_row row = weft__rounded_row(x, m + r);
            _mm512_store_si512(tile + r * STEP,
                               widened(row.q + k, _mm512_set1_ps(row.scale[k / STEP])));
        }
    }
}

// Tile after tile: of a row alone they are 1 KB apart, in few sets of the first cache.
static void lay_numbers(const float *x, int64_t x_stride, int32_t m, int32_t rows, int64_t cols,
                        uint16_t *to, int64_t all)
{
    for (int64_t k = 0; k < cols; k += STEP) {
        uint16_t *tile = tile_at(to, all, cols, m, k) + m % X_STEP * STEP;
        for (int32_t r = 0; r < rows; r++)
            _mm512_store_si512(tile + r * STEP, narrow_row(x + r * x_stride + k, STEP));
    }
}

const struct weft__linear_tiler weft__linear_tiler_amx = {lay_rounded, lay_numbers,
                                                          sizeof(struct tiles)};

void weft__linear_packed_wide_amx(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    struct tiles *p = call->room;
    struct beside beside = {.widen = widen_of(call->dtype)};
    const int64_t most = PART_PANELS * WEFT__PACKED_ROWS;
    const int64_t parts = weft__ceil_div(call->batch, X_ROWS);
    const int32_t share =
        (int32_t)weft__align_up(weft__ceil_div(call->batch, parts), X_STEP); // of a part
    tiles_begin(16);
    for (int64_t row = row0; row < row1; row += most)
        for (int32_t col = 0; col < call->batch; col += share) {
            const struct part part = {.row = row,
                                      .end = row1 - row < most ? row1 : row + most,
                                      .col = col,
                                      .cols =
                                          call->batch - col < share ? call->batch - col : share};
            multiply_part(call, p, &part, &beside);
        }
    results_written(call);
    tiles_end();
}
