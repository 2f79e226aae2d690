// SPDX-License-Identifier: MIT
// Quantised weights by 8-bit activations for many rows of X (prefill). Panels of 32 rows of W are
// decoded once per chunk of columns and turned round, so that a lane is a row of W: no sums across
// lanes, and one broadcast quad of x meets 16 rows.
//
//      w[quad][half]     16 rows x 4 columns as unsigned bytes
//      scale[group][half], minimum likewise: 16 rows
//      acc[column][half] 16 rows of f32, kept over the chunks
//
// With tiles of AMX (LINEAR_GEMM_ISA amx) sixteen rows of X meet the panel at a time: their integer sums are the same,
// and so is what follows to the bit.
//
// A source file of a few formats includes this: all in one would take a minute to compile.
#ifndef WEFT_KERNELS_LINEAR_GEMM_AVX512_H
#define WEFT_KERNELS_LINEAR_GEMM_AVX512_H

#ifdef __AMX_INT8__
#include "src/kernels/cpu/amx.h"
#endif
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_any.h"
#include "src/kernels/linear/linear_store.h"
#include "src/kernels/linear/linear_vnni_avx512.h"

enum {
    PANEL_ROWS = 32,
    CHUNK = 512,     // columns of W decoded at a time
    TILE_COLS = 192, // rows of X that share a decoded panel
    STEP_COLS = 6,   // rows of X in registers
#ifdef __AMX_INT8__
    TILE_STEP = 16, // rows of X in a tile
#else
    TILE_STEP = STEP_COLS,
#endif
    FOLD = 64 * CHUNK, // columns whose chunks share a sum (linear_kernel.h)
};

struct panel {
    __m512i w[CHUNK / 4][2];
    __m512 scale[CHUNK / 16][2];
    __m512 minimum[CHUNK / 16][2];
    __m512 acc[TILE_COLS][2];
    __m512 total[TILE_COLS][2]; // of FOLD chunks at a time, where there are more
};

struct format {
    // Columns [k, k + 128) of a row as two vectors; cols bounds the row.
    void (*unpack)(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2]);
    // The scales and minima of columns [k, k + CHUNK) of 16 rows.
    void (*unpack_scales)(struct panel *p, const unsigned char *const rows[16], int64_t k,
                          int64_t cols, int half);
    uint8_t place[8]; // where the sixteen i of 128 columns lies in the two vectors
    int group;        // columns per scale
    int bytes128;     // of 128 columns
    bool minimum;
    int offset_shift; // weights are 8 << offset_shift (group 16: 32 << offset_shift) too large
    const struct weft__any_format *any; // instead of unpack and unpack_scales
};

WEFT__INLINE void turn_i32(__m512i v[16])
{
    __m512 f[16];
    WEFT__UNROLL for (int i = 0; i < 16; i++)
    {
        f[i] = _mm512_castsi512_ps(v[i]);
    }
    vf32_transpose(f);
    WEFT__UNROLL for (int i = 0; i < 16; i++)
    {
        v[i] = _mm512_castps_si512(f[i]);
    }
}

WEFT__INLINE void turn_scales(__m512 v[16], __m512 (*out)[2], int half)
{
    vf32_transpose(v);
    WEFT__UNROLL for (int i = 0; i < 16; i++)
    {
        out[i][half] = v[i];
    }
}

// Of q4_k and q5_k, whose blocks begin alike.
WEFT__INLINE void unpack_scales_q45_k(struct panel *p, const unsigned char *const rows[16],
                                      int64_t k, int64_t cols, int half, int block_bytes)
{
    __m512 scale[16], minimum[16];
    for (int r = 0; r < 16; r++) {
        const unsigned char *block = rows[r] + k / 256 * block_bytes;
        __m512 first = weft__vnni_scales_q4_k(block);
        __m512 second = k + 256 < cols ? weft__vnni_scales_q4_k(block + block_bytes) : first;
        scale[r] = _mm512_shuffle_f32x4(first, second, 0x44);
        minimum[r] = _mm512_shuffle_f32x4(first, second, 0xee);
    }
    turn_scales(scale, p->scale, half);
    turn_scales(minimum, p->minimum, half);
}

// A piece of 16 rows of any format, as half of the columns [at, at + n) of the panel.
WEFT__INLINE void decode_pieces(struct panel *p, const struct weft__piece pieces[16], int64_t at,
                                int n, int half, struct format f)
{
    for (int i = 0; i < n; i += 64) {
        __m512i v[16];
        for (int r = 0; r < 16; r++)
            v[r] = _mm512_load_si512(pieces[r].q + i);
        turn_i32(v);
        for (int q = 0; q < 16; q++)
            p->w[(at + i) / 4 + q][half] = v[q];
    }
    const int step = f.group / 16;
    __m512 scale[16], minimum[16];
    for (int r = 0; r < 16; r++) {
        scale[r] = _mm512_loadu_ps(pieces[r].scale);
        minimum[r] = _mm512_loadu_ps(pieces[r].minimum);
    }
    vf32_transpose(scale);
    if (f.minimum)
        vf32_transpose(minimum);
    for (int i = 0; i < 16; i += step) {
        p->scale[(at / 16 + i) / step][half] = scale[i];
        if (f.minimum)
            p->minimum[(at / 16 + i) / step][half] = minimum[i];
    }
}

WEFT__INLINE void decode_panel_any(struct panel *p, const struct weft__linear_call *call,
                                   int64_t row, int64_t last, int64_t k, struct format f)
{
    for (int half = 0; half < 2; half++)
        for (int64_t i = 0; i < CHUNK && k + i < call->cols; i += WEFT__PIECE) {
            struct weft__piece pieces[16];
            int n = weft__piece_columns(call, k + i);
            for (int r = 0; r < 16; r++) {
                int64_t at = row + 16 * half + r < last ? row + 16 * half + r : last;
                f.any->expand(call, at, k + i, n, &pieces[r]);
            }
            decode_pieces(p, pieces, i, (n + 63) / 64 * 64, half, f);
        }
}

// Decodes columns [k, k + CHUNK) of 32 rows; rows past the last repeat it and are not stored.
WEFT__INLINE void decode_panel(struct panel *p, const struct weft__linear_call *call, int64_t row,
                               int64_t last, int64_t k, struct format f)
{
    for (int half = 0; half < 2; half++) {
        const unsigned char *rows[16];
        for (int r = 0; r < 16; r++) {
            int64_t at = row + 16 * half + r < last ? row + 16 * half + r : last;
            rows[r] = call->weight + at * call->weight_stride_bytes;
        }
        f.unpack_scales(p, rows, k, call->cols, half);
        for (int64_t i = 0; i < CHUNK && k + i < call->cols; i += 128) {
            __m512i v[2][16];
            for (int r = 0; r < 16; r++) {
                __m512i w[2];
                f.unpack(rows[r], k + i, call->cols, w);
                v[0][r] = w[0];
                v[1][r] = w[1];
                const unsigned char *ahead = rows[r] + (k + i + CHUNK) / 128 * f.bytes128;
                __builtin_prefetch(ahead);
                __builtin_prefetch(ahead + 64);
            }
            turn_i32(v[0]);
            turn_i32(v[1]);
            for (int q = 0; q < 16; q++) {
                p->w[i / 4 + q][half] = v[0][q];
                p->w[i / 4 + 16 + q][half] = v[1][q];
            }
        }
    }
}

WEFT__INLINE __m512i dot_quad(__m512i acc, __m512i w, const int8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(quad));
}

// What a row of X has beside its bytes, from column k on.
struct x_row {
    const float *scale;
    const int32_t *sum; // of a group; those of 32 with a minimum: times the scale, f32
};

WEFT__INLINE struct x_row x_row_of(const struct weft__rounded *acts, int64_t m, int64_t k,
                                   struct format f)
{
    struct weft__rounded_row x = weft__rounded_row(acts, m);
    return (struct x_row){.scale = x.scale + k / 32,
                          .sum = f.minimum && f.group == 32
                                     ? (const int32_t *)(const void *)(x.scaled + k / 32)
                                 : f.group == 16 ? x.sum16 + k / 16
                                                 : x.sum32 + k / 32};
}

// What makes up for weights that are too large.
WEFT__INLINE __m512i offset_of(struct x_row x, int group, struct format f)
{
    __m512i offset = f.minimum ? _mm512_setzero_si512() : _mm512_set1_epi32(x.sum[group]);
    return _mm512_slli_epi32(offset, f.offset_shift);
}

// Adds the integer sums of a group of columns, 16 rows of W by a row of X.
WEFT__INLINE __m512 add_group(__m512 acc, __m512i dot, const struct panel *p, int group, int half,
                              struct x_row x, struct format f)
{
    __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dot), p->scale[group][half]);
    acc = _mm512_fmadd_ps(scaled, _mm512_set1_ps(x.scale[group * f.group / 32]), acc);
    if (f.minimum && f.group == 16) {
        float m = (float)x.sum[group] * (x.scale[group / 2] * (1.0f / 32)); // of -32 times
        acc = _mm512_fmadd_ps(p->minimum[group][half], _mm512_set1_ps(m), acc);
    } else if (f.minimum) {
        float m;
        memcpy(&m, &x.sum[group], sizeof m);
        acc = _mm512_fnmadd_ps(p->minimum[group][half], _mm512_set1_ps(m), acc);
    }
    return acc;
}

// One group of columns: `sixteens` of 16 from the sixteen `first` of the 128 at w and q.
WEFT__INLINE void step_group(__m512 acc[STEP_COLS][2], const struct panel *p, int group,
                             __m512i (*w)[2], const int8_t *const q[STEP_COLS], int first,
                             const struct x_row x_rows[STEP_COLS], int cols, struct format f)
{
    __m512i dot[STEP_COLS][2];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        dot[c][0] = dot[c][1] = offset_of(x_rows[c], group, f);
    }
    WEFT__UNROLL for (int s = 0; s < f.group / 16; s++) WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        int place = f.place[first + s];
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            const int8_t *x = q[c] + 16 * (first + s) + 4 * i;
            dot[c][0] = dot_quad(dot[c][0], w[4 * place + i][0], x);
            dot[c][1] = dot_quad(dot[c][1], w[4 * place + i][1], x);
        }
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++) WEFT__UNROLL for (int half = 0; half < 2; half++)
    {
        acc[c][half] = add_group(acc[c][half], dot[c][half], p, group, half, x_rows[c], f);
    }
}

// A decoded panel by `cols` rows of X from `col` on; rows of X past the last repeat it.
// Each chunk has a sum of its own: in a single long one small products would drown.
WEFT__INLINE void multiply_chunk(struct panel *p, const struct weft__rounded *acts, int32_t col,
                                 int32_t last, int64_t at, int64_t k, int64_t columns, int cols,
                                 struct format f)
{
    const int8_t *q[STEP_COLS];
    struct x_row x_rows[STEP_COLS];
    __m512 acc[STEP_COLS][2];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        int64_t m = col + c < last ? col + c : last;
        q[c] = weft__rounded_row(acts, m).q + k;
        x_rows[c] = x_row_of(acts, m, k, f);
        acc[c][0] = acc[c][1] = _mm512_setzero_ps();
    }
    for (int c = 0; c < cols; c++)
        for (int64_t i = 0; i < columns; i += 64)
            __builtin_prefetch(q[c] + cols * acts->at.row_bytes + i);
    for (int64_t i = 0; i < columns; i += 128) {
        WEFT__UNROLL for (int g = 0; g < 128 / f.group; g++)
        {
            step_group(acc, p, (int)(i / f.group) + g, &p->w[i / 4], q, g * f.group / 16, x_rows,
                       cols, f);
        }
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            q[c] += 128;
        }
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        p->acc[at + c][0] = _mm512_add_ps(p->acc[at + c][0], acc[c][0]);
        p->acc[at + c][1] = _mm512_add_ps(p->acc[at + c][1], acc[c][1]);
    }
}

#ifdef __AMX_INT8__
// The integer sums of a group of columns, 32 rows of W by TILE_STEP rows of X at q.
WEFT__INLINE void dot_tiles(int32_t dot[2][TILE_STEP][16], const int8_t *q, int64_t row_bytes,
                            const __m512i (*w)[2], int first, struct format f)
{
    tile_zero(0);
    tile_zero(1);
    WEFT__UNROLL for (int s = 0; s < f.group / 16; s++)
    {
        int place = f.place[first + s];
        tile_load(4, q + 16 * (first + s), row_bytes);
        tile_load(6, &w[4 * place][0], sizeof w[0]);
        tile_dot_i8_u8(0, 4, 6);
        tile_load(7, &w[4 * place][1], sizeof w[0]);
        tile_dot_i8_u8(1, 4, 7);
    }
    tile_store(0, dot[0]);
    tile_store(1, dot[1]);
}

// As multiply_chunk(), to the bit.
WEFT__INLINE void multiply_tiles(struct panel *p, const struct weft__rounded *acts, int32_t col,
                                 int64_t at, int64_t k, int64_t columns, struct format f)
{
    enum { GROUPS = 128 / 16 }; // most of 128 columns
    _Alignas(64) int32_t dot[GROUPS][2][TILE_STEP][16];
    const int8_t *q = weft__rounded_row(acts, col).q + k;
    struct x_row x_rows[TILE_STEP];
    __m512 acc[TILE_STEP][2];
    const int groups = 128 / f.group;
    for (int c = 0; c < TILE_STEP; c++) {
        x_rows[c] = x_row_of(acts, col + c, k, f);
        acc[c][0] = acc[c][1] = _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < columns; i += 128) {
        WEFT__UNROLL for (int g = 0; g < groups; g++)
        {
            dot_tiles(dot[g], q + i, acts->at.row_bytes, (const __m512i(*)[2]) & p->w[i / 4],
                      g * f.group / 16, f);
        }
        for (int c = 0; c < TILE_STEP; c++)
            WEFT__UNROLL for (int g = 0; g < groups; g++)
                WEFT__UNROLL for (int half = 0; half < 2; half++)
            {
                int group = (int)(i / f.group) + g;
                __m512i sum = _mm512_add_epi32(_mm512_load_si512(dot[g][half][c]),
                                               offset_of(x_rows[c], group, f));
                acc[c][half] = add_group(acc[c][half], sum, p, group, half, x_rows[c], f);
            }
    }
    for (int c = 0; c < TILE_STEP; c++)
        for (int half = 0; half < 2; half++)
            p->acc[at + c][half] = _mm512_add_ps(p->acc[at + c][half], acc[c][half]);
}
#endif

WEFT__INLINE void store_panel(const struct weft__linear_call *call, const struct panel *p,
                              int64_t row, int64_t row1, int32_t col, int32_t cols)
{
    int64_t rows = row1 - row < PANEL_ROWS ? row1 - row : PANEL_ROWS;
    for (int32_t c = 0; c < cols; c++)
        for (int half = 0; 16 * half < rows; half++) {
            int64_t left = rows - 16 * half;
            weft__linear_store_lanes(call, col + c, row + 16 * half, left < 16 ? (int)left : 16,
                                     p->total[c][half]);
        }
}

// Adds what acc has to the total and begins anew.
WEFT__INLINE void fold(struct panel *p, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++)
        for (int half = 0; half < 2; half++) {
            p->total[c][half] = _mm512_add_ps(p->total[c][half], p->acc[c][half]);
            p->acc[c][half] = _mm512_setzero_ps();
        }
}

// Rows [row, row1) of W, at most a panel, by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void multiply_panel(const struct weft__linear_call *call, int64_t row, int64_t row1,
                                 int32_t col, int32_t cols, struct format f)
{
    struct panel p;
    int32_t last = col + cols - 1;
    // A step takes up to one row of X more than there are.
    for (int32_t c = 0; c < TILE_COLS && c <= cols; c++)
        p.acc[c][0] = p.acc[c][1] = p.total[c][0] = p.total[c][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < call->cols; k += CHUNK) {
        if (k > 0 && k % FOLD == 0)
            fold(&p, cols);
        // The activations are padded with zeros to a whole number of 128 columns.
        int64_t columns = call->cols - k < CHUNK ? call->cols - k : CHUNK;
        int32_t c = 0;
        if (f.any)
            decode_panel_any(&p, call, row, row1 - 1, k, f);
        else
            decode_panel(&p, call, row, row1 - 1, k, f);
#ifdef __AMX_INT8__
        for (; c + TILE_STEP <= cols; c += TILE_STEP)
            multiply_tiles(&p, &call->acts, col + c, c, k, columns, f);
#endif
        for (; c + 4 < cols; c += 6)
            multiply_chunk(&p, &call->acts, col + c, last, c, k, columns, 6, f);
        for (; c < cols; c += 2)
            multiply_chunk(&p, &call->acts, col + c, last, c, k, columns, 2, f);
    }
    fold(&p, cols);
    store_panel(call, &p, row, row1, col, cols);
}

// Rows of X that stay in the second-level cache while the panels pass: tiles of equal size.
static int32_t tile_cols(const struct weft__linear_call *call)
{
    const int64_t cache_bytes = 1024 * 1024;
    int64_t most = cache_bytes / call->acts.at.stride;
    most = most < 48 ? 48 : most < TILE_COLS ? most : TILE_COLS;
    int64_t tiles = (call->batch + most - 1) / most;
    int64_t tile = (call->batch + tiles - 1) / tiles;
    tile = (tile + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
    return (int32_t)(tile < TILE_COLS ? tile : TILE_COLS);
}

WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           struct format f)
{
    int32_t tile = tile_cols(call);
#ifdef __AMX_INT8__
    tiles_begin(4);
#endif
    for (int32_t col = 0; col < call->batch; col += tile)
        for (int64_t row = row0; row < row1; row += PANEL_ROWS)
            multiply_panel(call, row, row + PANEL_ROWS < row1 ? row + PANEL_ROWS : row1, col,
                           call->batch - col < tile ? call->batch - col : tile, f);
#ifdef __AMX_INT8__
    tiles_end();
#endif
}

#define LINEAR_GEMM_NAME_(weight, isa) weft__linear_##weight##_q8_panel_##isa
#define LINEAR_GEMM_NAME(weight, isa)  LINEAR_GEMM_NAME_(weight, isa)
#define LINEAR_GEMM_FUNCTION(weight)                                                               \
    weft__linear_fn LINEAR_GEMM_NAME(weight, LINEAR_GEMM_ISA);                                     \
    void LINEAR_GEMM_NAME(weight, LINEAR_GEMM_ISA)(const struct weft__linear_call *call,           \
                                                   int64_t row0, int64_t row1)

#define LINEAR_GEMM(weight, ...)                                                                   \
    LINEAR_GEMM_FUNCTION(weight)                                                                   \
    {                                                                                              \
        const struct format f = {__VA_ARGS__};                                                     \
        multiply(call, row0, row1, f);                                                             \
    }

#endif
