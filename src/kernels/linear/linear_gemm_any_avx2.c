// SPDX-License-Identifier: MIT
// Any format by many rounded rows of X, with AVX2: panels as in linear_gemm_avx2.c.
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/linear/linear_any.h"

enum {
    VECTORS = 2,
    PANEL_ROWS = 8 * VECTORS,
    GROUPS = WEFT__PIECE / 32,
    TILE_COLS = 96,          // rows of X that share a decoded panel
    FOLD = 64 * WEFT__PIECE, // columns whose pieces share a sum (linear_kernel.h)
};

struct panel {
    __m256i w[WEFT__PIECE / 4][VECTORS];
    __m256 scale[2 * GROUPS][VECTORS], minimum[2 * GROUPS][VECTORS];
    __m256 acc[TILE_COLS][VECTORS];
    __m256 total[TILE_COLS][VECTORS];
};

// Sixteen numbers of eight rows, turned round.
WEFT__INLINE void turn16(const struct weft__piece pieces[8], bool minimum, __m256 (*out)[VECTORS],
                         int v)
{
    for (int i = 0; i < 16; i += 8) {
        vf32 square[8];
        for (int r = 0; r < 8; r++)
            square[r] = vf32_load((minimum ? pieces[r].minimum : pieces[r].scale) + i);
        vf32_transpose(square);
        for (int r = 0; r < 8; r++)
            out[i + r][v] = square[r];
    }
}

// A piece of the panel's rows; those past the last repeat it and are not stored. Bytes become signed
// where they are above 127.
WEFT__INLINE void decode_panel(struct panel *p, const struct weft__linear_call *call, int64_t row,
                               int64_t last, int64_t k, const struct weft__any_format *format,
                               bool is_signed)
{
    const __m256i flip = _mm256_set1_epi8(is_signed ? (char)0x80 : 0);
    int n = weft__piece_columns(call, k);
    for (int v = 0; v < VECTORS; v++) {
        struct weft__piece pieces[8];
        for (int r = 0; r < 8; r++) {
            int64_t at = row + 8 * v + r < last ? row + 8 * v + r : last;
            format->expand(call, at, k, n, &pieces[r]);
        }
        for (int i = 0; i < n; i += 32) {
            vf32 square[8];
            for (int r = 0; r < 8; r++)
                square[r] = _mm256_castsi256_ps(
                    _mm256_xor_si256(_mm256_load_si256((const __m256i *)(pieces[r].q + i)), flip));
            vf32_transpose(square);
            for (int q = 0; q < 8; q++)
                p->w[i / 4 + q][v] = _mm256_castps_si256(square[q]);
        }
        turn16(pieces, false, p->scale, v);
        turn16(pieces, true, p->minimum, v);
    }
}

WEFT__INLINE __m256i broadcast_quad(const int8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return _mm256_set1_epi32(quad);
}

// Eight rows by 16 columns.
WEFT__INLINE __m256i dot16(const __m256i (*w)[VECTORS], int v, const int8_t *x, bool is_signed)
{
    __m256i sum = _mm256_setzero_si256();
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        __m256i a = w[i][v], b = broadcast_quad(x + 4 * i);
        __m256i words = is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a))
                                  : _mm256_maddubs_epi16(a, b);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
    }
    return sum;
}

// Group g of the panel by one row of X, in sixteens where each has a scale.
WEFT__INLINE void step_group(__m256 acc[VECTORS], const struct panel *p, int g,
                             const struct weft__rounded_row *x, int64_t k, struct weft__traits f,
                             bool is_signed)
{
    const __m256i(*w)[VECTORS] = (const __m256i(*)[VECTORS])(p->w + 8 * g);
    const int8_t *q = x->q + k + 32 * g;
    const int32_t *sum16 = x->sum16 + k / 16 + 2 * g; // times -32
    float scale = x->scale[k / 32 + g];
    WEFT__UNROLL for (int v = 0; v < VECTORS; v++)
    {
        __m256i dot[2] = {dot16(w, v, q, is_signed), dot16(w + 4, v, q + 16, is_signed)};
        for (int i = 0; i < 2 && f.wide; i++)
            dot[i] = _mm256_add_epi32(dot[i], _mm256_set1_epi32(-4 * sum16[i]));
        if (!f.sixteens)
            dot[0] = _mm256_add_epi32(dot[0], dot[1]);
        for (int i = 0; i < (f.sixteens ? 2 : 1); i++) {
            __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dot[i]), p->scale[2 * g + i][v]);
            acc[v] = _mm256_fmadd_ps(scaled, _mm256_set1_ps(scale), acc[v]);
        }
        for (int i = 0; i < 2 && f.minima == WEFT__MINIMA_16; i++) {
            __m256 sum = _mm256_set1_ps((float)sum16[i] * (scale * (1.0f / 32)));
            acc[v] = _mm256_fmadd_ps(p->minimum[2 * g + i][v], sum, acc[v]);
        }
        if (f.minima == WEFT__MINIMA_32)
            acc[v] = _mm256_fnmadd_ps(p->minimum[2 * g][v], _mm256_set1_ps(x->scaled[k / 32 + g]),
                                      acc[v]);
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

WEFT__INLINE void multiply_panel(const struct weft__linear_call *call, int64_t row, int64_t last,
                                 int32_t col, int32_t cols, const struct weft__any_format *format,
                                 struct weft__traits f)
{
    const bool is_signed = f.minima == WEFT__NO_MINIMA || f.wide;
    struct panel p; // each piece has a sum of its own: in a single long one small products drown
    for (int32_t c = 0; c < cols; c++)
        for (int v = 0; v < VECTORS; v++)
            p.acc[c][v] = p.total[c][v] = _mm256_setzero_ps();
    for (int64_t k = 0; k < call->cols; k += WEFT__PIECE) {
        int groups = weft__piece_columns(call, k) / 32;
        if (k > 0 && k % FOLD == 0)
            fold(&p, cols);
        decode_panel(&p, call, row, last, k, format, is_signed);
        for (int32_t c = 0; c < cols; c++) {
            struct weft__rounded_row x = weft__rounded_row(&call->acts, col + c);
            __m256 acc[VECTORS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
            for (int g = 0; g < groups; g++)
                step_group(acc, &p, g, &x, k, f, is_signed);
            for (int v = 0; v < VECTORS; v++)
                p.acc[c][v] = _mm256_add_ps(p.acc[c][v], acc[v]);
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
                           const struct weft__any_format *format, struct weft__traits f)
{
    for (int32_t col = 0; col < call->batch; col += TILE_COLS)
        for (int64_t row = row0; row < row1; row += PANEL_ROWS)
            multiply_panel(call, row, row + PANEL_ROWS < row1 ? row + PANEL_ROWS - 1 : row1 - 1,
                           col, call->batch - col < TILE_COLS ? call->batch - col : TILE_COLS,
                           format, f);
}

weft__linear_fn weft__linear_any_q8_panel_avx2;
void weft__linear_any_q8_panel_avx2(const struct weft__linear_call *call, int64_t row0,
                                    int64_t row1)
{
    const struct weft__any_format *format = weft__any_format_avx2(call->dtype);
    // Constants of five functions.
    if (format->traits.wide)
        multiply(call, row0, row1, format, (struct weft__traits){false, WEFT__MINIMA_32, true});
    else if (format->traits.minima == WEFT__MINIMA_32)
        multiply(call, row0, row1, format, (struct weft__traits){false, WEFT__MINIMA_32, false});
    else if (format->traits.minima == WEFT__MINIMA_16)
        multiply(call, row0, row1, format, (struct weft__traits){true, WEFT__MINIMA_16, false});
    else if (format->traits.sixteens)
        multiply(call, row0, row1, format, (struct weft__traits){true, WEFT__NO_MINIMA, false});
    else
        multiply(call, row0, row1, format, (struct weft__traits){false, WEFT__NO_MINIMA, false});
}
