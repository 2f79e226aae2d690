// SPDX-License-Identifier: MIT
// Quantised weights by 8-bit activations for many rows of X, with AVX2. As with VNNI (NOTES.md), panels
// of W are decoded once per chunk and turned round: a lane is a row of W, and a broadcast of four
// activations meets eight rows.
//
// vpmaddubsw takes unsigned weights and makes sums of 16 bits. Nibbles let a whole group of 32 add up
// in 16 bits (8 * 2 * 15 * 127 < 2^15), q6_k two quads (2 * 2 * 63 * 127 < 2^15); q8_0 would
// overflow, so its signs move to x and every quad is widened.
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/linear/linear_bytes_avx2.h"

#include "src/kernels/linear/linear_bytes.h"
#include "src/kernels/linear/linear_kernel.h"

enum {
    VECTORS = 2,
    PANEL_ROWS = 8 * VECTORS,
    CHUNK = 256,       // columns of W decoded at a time
    TILE_COLS = 96,    // rows of X that share a decoded panel
    FOLD = 64 * CHUNK, // columns whose chunks share a sum (linear_kernel.h)
};

struct panel {
    __m256i w[CHUNK / 4][VECTORS];
    __m256 scale[CHUNK / 16][VECTORS];
    __m256 minimum[CHUNK / 32][VECTORS];
    __m256 acc[TILE_COLS][VECTORS];
    __m256 total[TILE_COLS][VECTORS]; // of FOLD chunks at a time, where there are more
};

struct format {
    weft__group_fn *group;
    int block_elems, block_bytes;
    int offset;     // what makes the weights unsigned
    int scale_cols; // columns per scale
    int quads;      // that add up in 16 bits; 1: by way of signs
    bool minimum;
};

// Columns [k, k + 32) of eight rows, as group `g` of the panel.
WEFT__INLINE void decode_group(struct panel *p, const unsigned char *const rows[8], int64_t k,
                               int g, int v, struct format f)
{
    vf32 square[8];
    float scale[2][8], minimum[8];
    for (int r = 0; r < 8; r++) {
        const unsigned char *block = rows[r] + k / f.block_elems * f.block_bytes;
        struct weft__group group = f.group(block, (int)(k % f.block_elems / 32));
        __m256i w = _mm256_add_epi8(group.q, _mm256_set1_epi8((char)f.offset));
        square[r] = _mm256_castsi256_ps(w);
        scale[0][r] = group.scale[0];
        scale[1][r] = group.scale[1];
        minimum[r] = group.minimum;
    }
    vf32_transpose(square);
    for (int i = 0; i < 8; i++)
        p->w[8 * g + i][v] = _mm256_castps_si256(square[i]);
    for (int i = 0; i < 32 / f.scale_cols; i++)
        p->scale[32 / f.scale_cols * g + i][v] = vf32_load(scale[i]);
    p->minimum[g][v] = vf32_load(minimum);
}

// Rows past the last repeat it and are not stored.
WEFT__INLINE void decode_panel(struct panel *p, const struct weft__linear_call *call, int64_t row,
                               int64_t last, int64_t k, struct format f)
{
    for (int v = 0; v < VECTORS; v++) {
        const unsigned char *rows[8];
        for (int r = 0; r < 8; r++) {
            int64_t at = row + 8 * v + r < last ? row + 8 * v + r : last;
            rows[r] = call->weight + at * call->weight_stride_bytes;
        }
        for (int g = 0; g < CHUNK / 32 && k + 32 * g < call->cols; g++)
            decode_group(p, rows, k + 32 * g, g, v, f);
    }
}

WEFT__INLINE __m256i broadcast_quad(const int8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return _mm256_set1_epi32(quad);
}

// Eight rows by `count` quads of x, in 32 bits.
WEFT__INLINE __m256i dot_quads(const __m256i (*w)[VECTORS], int v, const int8_t *x, int count,
                               int quads)
{
    __m256i sum = _mm256_setzero_si256();
    WEFT__UNROLL for (int i = 0; i < count; i += quads)
    {
        __m256i words = _mm256_setzero_si256();
        WEFT__UNROLL for (int j = i; j < i + quads; j++)
        {
            __m256i a = w[j][v], b = broadcast_quad(x + 4 * j);
            __m256i product = quads == 1
                                  ? _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a))
                                  : _mm256_maddubs_epi16(a, b);
            words = j == i ? product : _mm256_add_epi16(words, product);
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
    }
    return sum;
}

// Group g of the panel by one row of X.
WEFT__INLINE void step_group(__m256 acc[VECTORS], const struct panel *p, int g, const int8_t *x,
                             float scale, const int32_t *sum, struct format f)
{
    const int parts = 32 / f.scale_cols;
    WEFT__UNROLL for (int v = 0; v < VECTORS; v++) WEFT__UNROLL for (int i = 0; i < parts; i++)
    {
        __m256i dot = dot_quads((const __m256i(*)[VECTORS])(p->w + 8 * g + 8 / parts * i), v,
                                x + 32 / parts * i, 8 / parts, f.quads);
        if (f.offset)
            dot = _mm256_add_epi32(dot, _mm256_set1_epi32(sum[parts * g + i]));
        __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dot), p->scale[parts * g + i][v]);
        acc[v] = _mm256_fmadd_ps(scaled, _mm256_set1_ps(scale), acc[v]);
    }
    if (!f.minimum)
        return;
    float x_sum;
    memcpy(&x_sum, &sum[g], sizeof x_sum);
    WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
    {
        acc[v] = _mm256_fnmadd_ps(p->minimum[g][v], _mm256_set1_ps(x_sum), acc[v]);
    }
}

// Adds what acc has to the total and begins anew.
WEFT__INLINE void fold(struct panel *p, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++)
        for (int v = 0; v < VECTORS; v++) {
            p->total[c][v] = _mm256_add_ps(p->total[c][v], p->acc[c][v]);
            p->acc[c][v] = _mm256_setzero_ps();
        }
}

// The sums that step_group() wants, from column k on.
WEFT__INLINE const int32_t *sums_at(const struct weft__rounded_row *x, int64_t k, struct format f)
{
    if (f.minimum)
        return (const int32_t *)(const void *)(x->scaled + k / 32);
    return f.scale_cols == 16 ? x->sum16 + k / 16 : x->sum32 + k / 32;
}

// The panel at `row` by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void multiply_panel(const struct weft__linear_call *call, int64_t row, int64_t last,
                                 int32_t col, int32_t cols, struct format f)
{
    const struct weft__rounded *acts = &call->acts;
    struct panel p; // each chunk has a sum of its own: in a single long one small products drown
    for (int32_t c = 0; c < cols; c++)
        for (int v = 0; v < VECTORS; v++)
            p.acc[c][v] = p.total[c][v] = _mm256_setzero_ps();
    for (int64_t k = 0; k < call->cols; k += CHUNK) {
        if (k > 0 && k % FOLD == 0)
            fold(&p, cols);
        int64_t left = (call->cols - k) / 32;
        int groups = (int)(left < CHUNK / 32 ? left : CHUNK / 32);
        decode_panel(&p, call, row, last, k, f);
        for (int32_t c = 0; c < cols; c++) {
            struct weft__rounded_row x = weft__rounded_row(acts, col + c);
            const int32_t *sum = sums_at(&x, k, f);
            __m256 acc[VECTORS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
            for (int g = 0; g < groups; g++)
                step_group(acc, &p, g, x.q + k + 32 * g, x.scale[k / 32 + g], sum, f);
            p.acc[c][0] = _mm256_add_ps(p.acc[c][0], acc[0]);
            p.acc[c][1] = _mm256_add_ps(p.acc[c][1], acc[1]);
        }
    }
    fold(&p, cols);
    for (int32_t c = 0; c < cols; c++)
        for (int r = 0; r < PANEL_ROWS && row + r <= last; r++) {
            float y[PANEL_ROWS];
            vf32_store(y, p.total[c][0]);
            vf32_store(y + 8, p.total[c][1]);
            weft__linear_store(call, col + c, row + r, y[r]);
        }
}

WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           struct format f)
{
    for (int32_t col = 0; col < call->batch; col += TILE_COLS)
        for (int64_t row = row0; row < row1; row += PANEL_ROWS)
            multiply_panel(call, row, row + PANEL_ROWS < row1 ? row + PANEL_ROWS - 1 : row1 - 1,
                           col, call->batch - col < TILE_COLS ? call->batch - col : TILE_COLS, f);
}

#define LINEAR_GEMM(weight, ...)                                                                   \
    weft__linear_fn weft__linear_##weight##_q8_panel_avx2;                                         \
    void weft__linear_##weight##_q8_panel_avx2(const struct weft__linear_call *call, int64_t row0, \
                                               int64_t row1)                                       \
    {                                                                                              \
        const struct format f = {__VA_ARGS__};                                                     \
        multiply(call, row0, row1, f);                                                             \
    }

LINEAR_GEMM(Q8_0, weft__group_q8_0, 32, 34, 0, 32, 1, false)
LINEAR_GEMM(Q4_0, weft__group_q4_0, 32, 18, 8, 32, 8, false)
LINEAR_GEMM(Q4_K, weft__group_q4_k, 256, 144, 0, 32, 8, true)
LINEAR_GEMM(Q6_K, weft__group_q6_k, 256, 210, 32, 16, 2, false)
