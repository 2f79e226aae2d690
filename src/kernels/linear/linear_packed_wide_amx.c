// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by many rows of X on the tiles of AMX, in bf16. Codes of blocks times their
// scales, less their minima, become bf16 once for all rows of X, so sums stay in tiles: no scale and no minimum is left
// for the loop (of int8 tiles, linear_packed_amx.c, these are most of it).
//
//      w[step][panel]   32 columns of 16 rows: 16 pairs of columns, a lane is a row of W
//      x[step]          16 rows by the same columns, as they lie; tiles one after another (weft__linear_lay_amx())
//      total[panel][m]  sums of the chunks before, which tiles go on with
//
// A chunk of 512 columns of two panels lies in the first cache and passes by all rows of X, whose columns of a chunk, and of the
// next, lie in the second.
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
    PART_PANELS = 16, // that pass by these
    TILE_ELEMS = X_STEP * STEP,
};

struct tiles {
    _Alignas(64) uint16_t w[CHUNK / STEP][PANELS][TILE_ELEMS];
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

// 32 columns of 16 rows as a tile.
WEFT__INLINE void put_group(uint16_t *tile, const struct group *g, struct widening how)
{
    const __m512i beside =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512 less[2];
    for (int i = 0; how.minimum && i <= how.halves; i++)
        less[i] = how.minimum > 1 ? _mm512_mul_ps(g->minimum[i], _mm512_set1_ps((float)how.minimum))
                                  : g->minimum[i];
    WEFT__UNROLL for (int n = 0; n < 8; n++)
    {
        const int half = how.halves ? n / 4 : 0;
        const __m512 scale = g->scale[half];
        const __m512i codes =
            how.offset ? _mm512_sub_epi8(g->w[n], _mm512_set1_epi8((char)how.offset)) : g->w[n];
        __m512 w[4];
        WEFT__UNROLL for (int i = 0; i < 4; i++)
        {
            w[i] = how.minimum ? _mm512_fmsub_ps(column(codes, i), scale, less[half])
                               : _mm512_mul_ps(column(codes, i), scale);
        }
        _mm512_store_si512(tile + (2 * n) * STEP,
                           _mm512_permutexvar_epi16(beside, narrow32(w[0], w[1])));
        _mm512_store_si512(tile + (2 * n + 1) * STEP,
                           _mm512_permutexvar_epi16(beside, narrow32(w[2], w[3])));
    }
}

// `columns` of a panel, as every PANELS-th tile from `tile` on.
typedef void widen_fn(uint16_t (*tile)[PANELS][TILE_ELEMS], const unsigned char *chunk,
                      int64_t columns);

#define WIDEN(ID, unpack_, begin_, ...)                                                            \
    static __attribute__((noinline)) void widen_##ID(uint16_t(*tile)[PANELS][TILE_ELEMS],          \
                                                     const unsigned char *chunk, int64_t columns)  \
    {                                                                                              \
        const struct weft__packed_shape shape = weft__packed_shape(WEFT_##ID);                     \
        const struct widening how = {__VA_ARGS__};                                                 \
        for (int64_t k = 0; k < columns; k += shape.cols) {                                        \
            struct head head;                                                                      \
            const unsigned char *codes = chunk + shape.head_bytes;                                 \
            begin_(chunk, &head);                                                                  \
            for (int g = 0; g < shape.cols / STEP; g++, codes += shape.group_bytes) {              \
                struct group group;                                                                \
                unpack_(chunk, codes, g, &head, &group);                                           \
                put_group((*tile++)[0], &group, how);                                              \
            }                                                                                      \
            chunk = codes;                                                                         \
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

// Lines that are asked for, some with each step.
struct ahead {
    const char *at[2];
    int64_t done, lines; // of each
    int per_step;
};

WEFT__INLINE void ask(struct ahead *a)
{
    for (int i = 0; i < a->per_step && a->done < a->lines; i++, a->done++) {
        _mm_prefetch(a->at[0] + 64 * a->done, _MM_HINT_T1);
        _mm_prefetch(a->at[1] + 64 * a->done, _MM_HINT_T1);
    }
}

// Two tiles of X by both panels.
static void multiply_four(uint16_t (*w)[PANELS][TILE_ELEMS], const uint16_t *x0, const uint16_t *x1,
                          int64_t steps, float (*total)[X_ROWS][16], bool begins,
                          struct ahead *ask_w, struct ahead *ask_x)
{
    if (begins) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        tile_load(0, total[0][0], 64);
        tile_load(1, total[1][0], 64);
        tile_load(2, total[0][X_STEP], 64);
        tile_load(3, total[1][X_STEP], 64);
    }
    for (int64_t i = 0; i < steps; i++) {
        ask(ask_w);
        ask(ask_x);
        tile_load(6, w[i][0], TILE_ROW_BYTES);
        tile_load_once(4, x0 + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 4, 6);
        tile_load(7, w[i][1], TILE_ROW_BYTES);
        tile_dot_bf16(1, 4, 7);
        tile_load_once(5, x1 + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(2, 5, 6);
        tile_dot_bf16(3, 5, 7);
    }
    tile_store(0, total[0][0]);
    tile_store(1, total[1][0]);
    tile_store(2, total[0][X_STEP]);
    tile_store(3, total[1][X_STEP]);
}

// One.
static void multiply_two(uint16_t (*w)[PANELS][TILE_ELEMS], const uint16_t *x0, int64_t steps,
                         float (*total)[X_ROWS][16], bool begins, struct ahead *ask_w)
{
    if (begins) {
        tile_zero(0);
        tile_zero(1);
    } else {
        tile_load(0, total[0][0], 64);
        tile_load(1, total[1][0], 64);
    }
    for (int64_t i = 0; i < steps; i++) {
        ask(ask_w);
        tile_load(6, w[i][0], TILE_ROW_BYTES);
        tile_load_once(4, x0 + i * TILE_ELEMS, TILE_ROW_BYTES);
        tile_dot_bf16(0, 4, 6);
        tile_load(7, w[i][1], TILE_ROW_BYTES);
        tile_dot_bf16(1, 4, 7);
    }
    tile_store(0, total[0][0]);
    tile_store(1, total[1][0]);
}

// Panels [0, count) at `panels`, at most a part, by `cols` rows of X at x, at most X_ROWS.
static void multiply_part(const struct weft__linear_call *call, struct tiles *p,
                          const unsigned char *panels, int64_t count, const uint16_t *x,
                          int32_t cols, widen_fn *widen)
{
    const struct weft__packed_shape shape = weft__packed_shape(call->dtype);
    const int64_t panel_bytes = weft__packed_panel_bytes(shape, call->cols),
                  stride = call->x_tiles_stride;
    const int64_t pairs = (count + PANELS - 1) / PANELS, sixteens = (cols + X_STEP - 1) / X_STEP;
    for (int64_t k = 0; k < call->cols; k += CHUNK) {
        const int64_t columns = call->cols - k < CHUNK ? call->cols - k : CHUNK,
                      steps = columns / STEP;
        const int64_t at = weft__packed_panel_bytes(shape, k),
                      bytes = weft__packed_panel_bytes(shape, columns);
        const int64_t next_k = k + CHUNK < call->cols ? k + CHUNK : 0;
        const int64_t next_columns = call->cols - next_k < CHUNK ? call->cols - next_k : CHUNK;
        for (int64_t n = 0; n < count; n += PANELS) {
            const unsigned char *from = panels + n * panel_bytes + at;
            const unsigned char *next =
                n + PANELS < count ? from + PANELS * panel_bytes : panels + at + bytes;
            const int64_t blocks = (sixteens + PAIR - 1) / PAIR;
            struct ahead ask_w = {{(const char *)next, (const char *)next + panel_bytes},
                                  0,
                                  bytes / 64,
                                  (int)(bytes / 64 / (blocks * steps) + 1)};
            for (int i = 0; i < PANELS && n + i < count; i++)
                widen((uint16_t(*)[PANELS][TILE_ELEMS])p->w[0][i], from + i * panel_bytes, columns);
            tiles_written();
            for (int64_t s = 0; s < sixteens; s += PAIR) {
                const uint16_t *first = x + s * X_STEP * stride + X_STEP * k;
                float(*total)[X_ROWS][16] = (float(*)[X_ROWS][16])p->total[n][s * X_STEP];
                if (s + 1 == sixteens) {
                    multiply_two(p->w, first, steps, total, k == 0, &ask_w);
                    break;
                }
                const int64_t lines = next_columns / 2; // of a sixteen
                const int64_t pair = n / PANELS, begin = lines * pair / pairs,
                              end = lines * (pair + 1) / pairs;
                const char *next_x = (const char *)(x + s * X_STEP * stride + X_STEP * next_k);
                struct ahead ask_x = {{next_x, next_x + 2 * X_STEP * stride},
                                      begin,
                                      end,
                                      (int)((end - begin) / steps + 1)};
                multiply_four(p->w, first, first + X_STEP * stride, steps, total, k == 0, &ask_w,
                              &ask_x);
            }
        }
    }
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

weft__lay_fn weft__linear_lay_amx;
void weft__linear_lay_amx(const struct weft__rounded *x, int32_t m, int32_t rows, int64_t cols,
                          uint16_t *to, int64_t stride)
{
    uint16_t *tile = to + m * stride;
    for (int64_t k = 0; k < cols; k += STEP, tile += TILE_ELEMS)
        for (int32_t r = 0; r < rows; r++) {
            const struct weft__rounded_row row = weft__rounded_row(x, m + r);
            _mm512_store_si512(tile + r * STEP,
                               widened(row.q + k, _mm512_set1_ps(row.scale[k / STEP])));
        }
}

static void store(const struct weft__linear_call *call, const struct tiles *p, int64_t row0,
                  int64_t row1, int32_t col, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++)
        for (int64_t row = row0; row < row1; row += WEFT__PACKED_ROWS)
            weft__linear_store_lanes(call, col + c, row,
                                     row1 - row < WEFT__PACKED_ROWS ? (int)(row1 - row)
                                                                    : WEFT__PACKED_ROWS,
                                     _mm512_load_ps(p->total[(row - row0) / WEFT__PACKED_ROWS][c]));
}

void weft__linear_packed_wide_amx(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    struct tiles p;
    const int64_t panel_bytes =
        weft__packed_panel_bytes(weft__packed_shape(call->dtype), call->cols);
    const int64_t part = PART_PANELS * WEFT__PACKED_ROWS;
    widen_fn *const widen = widen_of(call->dtype);
    const int32_t parts = (call->batch + X_ROWS - 1) / X_ROWS;
    const int32_t share = ((call->batch + parts - 1) / parts + X_STEP - 1) / X_STEP * X_STEP;
    tiles_begin(16);
    for (int64_t row = row0; row < row1; row += part) {
        const int64_t end = row1 - row < part ? row1 : row + part;
        for (int32_t col = 0; col < call->batch; col += share) {
            const int32_t cols = call->batch - col < share ? call->batch - col : share;
            multiply_part(call, &p, call->weight + row / WEFT__PACKED_ROWS * panel_bytes,
                          (end - row + WEFT__PACKED_ROWS - 1) / WEFT__PACKED_ROWS,
                          call->x_tiles + col * call->x_tiles_stride, cols, widen);
            store(call, &p, row, end, col, cols);
        }
    }
    tiles_end();
}
