// SPDX-License-Identifier: MIT
// Quantised weights by 8-bit activations for a few rows of X (decode, small batches). The lanes of a
// register lie along the columns of W, and several rows of W share each load of x. NOTES.md has the
// reasons and figures.
//
// Weights are unsigned, as vpdpbusd wants them; their offset comes back through the sums of the
// activations, in integers.
#include "src/kernels/linear/linear_rows.h"
#include "src/kernels/linear/linear_vnni_avx512.h"

#ifndef WEFT__LINEAR_MASKED
#define WEFT__LINEAR_MASKED 0
#endif

// A few rows of W by a few rows of X.
struct tile {
    struct weft__linear_rows w;
    struct weft__rounded_row x[WEFT__TILE_COLS];
    __m512 acc[WEFT__TILE_ROWS][WEFT__TILE_COLS];
};

// Four scales, each in the four lanes of a quarter.
WEFT__INLINE __m512 spread_scales(const float *scale)
{
    const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lane, _mm512_castps128_ps512(_mm_loadu_ps(scale)));
}

// A format of blocks of 32, of which four make a step of 128 columns.
struct blocks4 {
    weft__vnni_unpack_fn *unpack;
    int block_bytes;
    int offset_shift; // its weights are 4 << offset_shift too large; -1: they are not
    bool minimum;
    bool masked; // w[1] is 16 times what it should be
};

// The 128 columns from k on of `rows` rows of W, unpacked, by those of X.
WEFT__INLINE void multiply_128(struct tile *t, const struct weft__vnni_blocks4 b[WEFT__TILE_ROWS],
                               int64_t k, int rows, int cols, struct blocks4 f)
{
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        __m512i q[2] = {_mm512_loadu_si512(t->x[c].halves + k),
                        _mm512_loadu_si512(t->x[c].halves + k + 64)};
        if (cols == 1) {
            WEFT__IN_REGISTER(q[0]);
            WEFT__IN_REGISTER(q[1]);
        }
        __m512i offset = _mm512_setzero_si512();
        if (f.offset_shift >= 0)
            offset = _mm512_slli_epi32(_mm512_load_epi32(t->x[c].octets + k / 8),
                                       (unsigned)f.offset_shift);
        __m512 scale = spread_scales(t->x[c].scale + k / 32);
        __m512 sums = f.minimum ? spread_scales(t->x[c].scaled + k / 32) : scale;
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            __m512i dot = _mm512_dpbusd_epi32(offset, b[r].w[0], q[0]);
            if (f.masked) // 16 times the high nibbles: their sums are shifted instead
                dot = _mm512_add_epi32(
                    dot, _mm512_srai_epi32(
                             _mm512_dpbusd_epi32(_mm512_setzero_si512(), b[r].w[1], q[1]), 4));
            else
                dot = _mm512_dpbusd_epi32(dot, b[r].w[1], q[1]);
            t->acc[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot),
                                           _mm512_mul_ps(b[r].scale, scale), t->acc[r][c]);
            if (f.minimum)
                t->acc[r][c] = _mm512_fmadd_ps(b[r].minimum, sums, t->acc[r][c]);
        }
    }
}

// One step; the blocks of row r are at blocks + r * stride.
WEFT__INLINE void step_blocks4(struct tile *t, const unsigned char *blocks, int64_t stride,
                               int64_t k, int rows, int cols, struct blocks4 f)
{
    struct weft__vnni_blocks4 b[WEFT__TILE_ROWS];
    WEFT__UNROLL for (int r = 0; r < rows; r++)
    {
        f.unpack(blocks + r * stride, &b[r]);
    }
    multiply_128(t, b, k, rows, cols, f);
}

WEFT__INLINE void dot_blocks4(struct tile *t, int64_t k, int64_t end, int rows, int cols,
                              struct blocks4 f)
{
    int64_t offset = k / 32 * f.block_bytes;
    for (; k + 128 <= end; k += 128, offset += 4 * f.block_bytes) {
        weft__linear_fetch_next(&t->w, rows, offset, 4 * f.block_bytes);
        step_blocks4(t, t->w.first + offset, t->w.stride, k, rows, cols, f);
    }
    if (k == end)
        return;
    // Fewer than four blocks are left: the missing ones have scale zero.
    unsigned char tail[WEFT__TILE_ROWS][4 * 34] = {{0}};
    for (int r = 0; r < rows; r++)
        memcpy(tail[r], t->w.first + r * t->w.stride + offset,
               (size_t)((end - k) / 32 * f.block_bytes));
    step_blocks4(t, tail[0], sizeof tail[0], k, rows, cols, f);
}

// Both nibbles by masks alone.
#if WEFT__LINEAR_MASKED
WEFT__INLINE void weft__vnni_unpack_masked(const unsigned char *p, struct weft__vnni_blocks4 *out)
{
    weft__vnni_unpack_q4_0(p, out);
    out->w[1] = _mm512_and_si512(weft__vnni_load4(p + 2, p + 20, p + 38, p + 56),
                                 _mm512_set1_epi8((char)0xf0));
}
#endif

#define DOT_BLOCKS4(name, ...)                                                                     \
    WEFT__INLINE void dot_##name(struct tile *t, int64_t k, int64_t end, int rows, int cols)       \
    {                                                                                              \
        const struct blocks4 f = {weft__vnni_unpack_##name, __VA_ARGS__, WEFT__LINEAR_MASKED};     \
        dot_blocks4(t, k, end, rows, cols, f);                                                     \
    }

DOT_BLOCKS4(q4_0, 18, 1, false)
DOT_BLOCKS4(q8_0, 34, 5, false)
DOT_BLOCKS4(q4_1, 20, -1, true)
DOT_BLOCKS4(q5_0, 22, 2, false)
DOT_BLOCKS4(q5_1, 24, -1, true)
DOT_BLOCKS4(iq4_nl, 18, 5, false)
DOT_BLOCKS4(mxfp4, 17, 2, false)

// Lanes 4 n .. 4 n + 3, each in the four lanes of a quarter.
WEFT__INLINE __m512 spread_quarter(__m512 scales, int n)
{
    const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(_mm512_add_epi32(lane, _mm512_set1_epi32(4 * n)), scales);
}

// q4_k, or q5_k with five bits.
WEFT__INLINE void dot_q45_k(struct tile *t, int64_t k, int64_t end, int rows, int cols, bool five)
{
    const struct blocks4 f = {.offset_shift = -1};
    const int block_bytes = five ? 176 : 144;
    for (int64_t offset = k / 256 * block_bytes; k < end; k += 256, offset += block_bytes) {
        __m512 scales[WEFT__TILE_ROWS], minima[WEFT__TILE_ROWS];
        weft__linear_fetch_next(&t->w, rows, offset, block_bytes);
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            scales[r] = weft__vnni_scales_q4_k(t->w.first + r * t->w.stride + offset);
            minima[r] = _mm512_shuffle_f32x4(scales[r], _mm512_setzero_ps(), 0x0e);
        }
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            __m512 sums = _mm512_maskz_loadu_ps(0x00ff, t->x[c].scaled + k / 32);
            WEFT__UNROLL for (int r = 0; r < rows; r++)
            {
                t->acc[r][c] = _mm512_fnmadd_ps(minima[r], sums, t->acc[r][c]);
            }
        }
        WEFT__UNROLL for (int n = 0; n < 2; n++)
        {
            struct weft__vnni_blocks4 b[WEFT__TILE_ROWS];
            WEFT__UNROLL for (int r = 0; r < rows; r++)
            {
                const unsigned char *block = t->w.first + r * t->w.stride + offset;
                weft__vnni_halves_q45_k(block, n, five, b[r].w);
                b[r].scale = spread_quarter(scales[r], n);
            }
            multiply_128(t, b, k + 128 * n, rows, cols, f);
        }
    }
}

WEFT__INLINE void dot_q4_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_q45_k(t, k, end, rows, cols, false);
}

WEFT__INLINE void dot_q5_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_q45_k(t, k, end, rows, cols, true);
}

// Groups of 32 with a scale each, nibbles of a group in 16 bytes: steps of four groups as blocks4.
WEFT__INLINE void dot_iq4_xs(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    const struct blocks4 f = {.offset_shift = 5};
    for (int64_t offset = k / 256 * 136; k < end; k += 256, offset += 136) {
        __m512 scales[WEFT__TILE_ROWS];
        weft__linear_fetch_next(&t->w, rows, offset, 136);
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            const unsigned char *block = t->w.first + r * t->w.stride + offset;
            scales[r] = _mm512_castps256_ps512(weft__vnni_scales_iq4_xs(block));
        }
        WEFT__UNROLL for (int n = 0; n < 2; n++)
        {
            struct weft__vnni_blocks4 b[WEFT__TILE_ROWS];
            WEFT__UNROLL for (int r = 0; r < rows; r++)
            {
                const unsigned char *block = t->w.first + r * t->w.stride + offset;
                weft__vnni_unpack_iq4_xs(block + 8 + 64 * n, b[r].w);
                b[r].scale = spread_quarter(scales[r], n);
            }
            multiply_128(t, b, k + 128 * n, rows, cols, f);
        }
    }
}

// Two and three bits with a scale for each 16: q2_k (with minima) and q3_k.
WEFT__INLINE void dot_q23_k(struct tile *t, int64_t k, int64_t end, int rows, int cols, bool three)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const int block_bytes = three ? 110 : 84;
    for (int64_t offset = k / 256 * block_bytes; k < end; k += 256, offset += block_bytes) {
        weft__linear_fetch_next(&t->w, rows, offset, block_bytes);
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            const unsigned char *block = t->w.first + r * t->w.stride + offset;
            __m512 combined[WEFT__TILE_COLS], minimum = _mm512_setzero_ps();
            __m512 scales =
                three ? weft__vnni_scales_q3_k(block) : weft__vnni_scales_q2_k(block, &minimum);
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                __m512 x = _mm512_castps256_ps512(_mm256_loadu_ps(t->x[c].scale + k / 32));
                x = _mm512_permutexvar_ps(twice, x);
                combined[c] = _mm512_mul_ps(scales, x);
                if (!three) { // sums are -32 times
                    __m512 sums = _mm512_cvtepi32_ps(_mm512_loadu_si512(t->x[c].sum16 + k / 16));
                    sums = _mm512_mul_ps(_mm512_mul_ps(sums, x), _mm512_set1_ps(1.0f / 32));
                    t->acc[r][c] = _mm512_fmadd_ps(minimum, sums, t->acc[r][c]);
                }
            }
            WEFT__UNROLL for (int i = 0; i < 4; i++)
            {
                __m512i w =
                    three ? weft__vnni_unpack_q3_k(block, i) : weft__vnni_two_bits(block + 16, i);
                __m512i lane = _mm512_add_epi32(quarter, _mm512_set1_epi32(4 * i));
                WEFT__UNROLL for (int c = 0; c < cols; c++)
                {
                    __m512i dot = _mm512_setzero_si512();
                    if (three)
                        dot = _mm512_srai_epi32(_mm512_loadu_si512(t->x[c].quads + k / 4 + 16 * i),
                                                3);
                    dot = _mm512_dpbusd_epi32(dot, w, _mm512_loadu_si512(t->x[c].q + k + 64 * i));
                    t->acc[r][c] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot),
                                        _mm512_permutexvar_ps(lane, combined[c]), t->acc[r][c]);
                }
            }
        }
    }
}

WEFT__INLINE void dot_q2_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_q23_k(t, k, end, rows, cols, false);
}

WEFT__INLINE void dot_q3_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_q23_k(t, k, end, rows, cols, true);
}

WEFT__INLINE void dot_q6_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    for (int64_t offset = k / 256 * 210; k < end; k += 256, offset += 210) {
        weft__linear_fetch_next(&t->w, rows, offset, 210);
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            const unsigned char *block = t->w.first + r * t->w.stride + offset;
            __m512 scales = weft__vnni_scales_q6_k(block);
            __m512 combined[WEFT__TILE_COLS];
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                __m512 x = _mm512_castps256_ps512(_mm256_loadu_ps(t->x[c].scale + k / 32));
                combined[c] = _mm512_mul_ps(scales, _mm512_permutexvar_ps(twice, x));
            }
            WEFT__UNROLL for (int i = 0; i < 4; i++)
            {
                __m512i w[2];
                weft__vnni_unpack_q6_k(block, i / 2, w);
                __m512i lane = _mm512_add_epi32(quarter, _mm512_set1_epi32(4 * i));
                WEFT__UNROLL for (int c = 0; c < cols; c++)
                {
                    __m512i dot =
                        _mm512_dpbusd_epi32(_mm512_loadu_si512(t->x[c].quads + k / 4 + 16 * i),
                                            w[i % 2], _mm512_loadu_si512(t->x[c].q + k + 64 * i));
                    t->acc[r][c] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot),
                                        _mm512_permutexvar_ps(lane, combined[c]), t->acc[r][c]);
                }
            }
        }
    }
}

typedef void dot_fn(struct tile *t, int64_t k, int64_t end, int rows, int cols);

// A function of its own: totals stay in memory, where they cost nothing, and leave the registers to the
// loop over columns.
static __attribute__((noinline)) void add_sums(__m512 *total, const __m512 *sum, int n)
{
    for (int i = 0; i < n; i++)
        total[i] = _mm512_add_ps(total[i], sum[i]);
}

// Columns [k, end): a sum of its own, with which the total begins or to which it is added. For one row of X
// there are registers for both.
WEFT__INLINE void add_chunk(struct tile *t, int64_t k, int64_t end, int rows, int cols, dot_fn *dot,
                            __m512 *total)
{
    __m512 sum[WEFT__TILE_ROWS * WEFT__TILE_COLS], *to = k == 0 ? total : sum;
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t->acc[r][c] = _mm512_setzero_ps();
    }
    dot(t, k, end, rows, cols);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (cols == 1)
            total[r] = _mm512_add_ps(total[r], t->acc[r][c]);
        else
            to[r * cols + c] = t->acc[r][c];
    }
    if (cols > 1 && k > 0)
        add_sums(total, sum, rows * cols);
}

// A lane adds at most once per `step` columns, minima included.
WEFT__INLINE void multiply_tile(const struct weft__linear_call *call, int64_t row, int rows,
                                int32_t col, int cols, dot_fn *dot, int step)
{
    const int64_t chunk = weft__linear_chunk(call->cols, step);
    __m512 total[WEFT__TILE_ROWS * WEFT__TILE_COLS];
    struct tile t;
    if (cols == 1)
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            total[r] = _mm512_setzero_ps();
        }
    t.w = weft__linear_rows_at(call, row, rows);
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t.x[c] = weft__rounded_row(&call->acts, weft__linear_tile_col(call, col, c));
    }
    for (int64_t k = 0; k < call->cols; k += chunk)
        add_chunk(&t, k, call->cols - k < chunk ? call->cols : k + chunk, rows, cols, dot, total);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (col + c < call->batch)
            weft__linear_store(call, col + c, row + r, vf32_sum(total[r * cols + c]));
    }
}

// Three and more rows of X go with `many_rows` of W.
#define LINEAR_VNNI(weight, dot, step, many_rows)                                                  \
    WEFT__INLINE void tile_##weight(const struct weft__linear_call *call, int64_t row, int rows,   \
                                    int32_t col, int cols, dot_fn *inner)                          \
    {                                                                                              \
        multiply_tile(call, row, rows, col, cols, inner, step);                                    \
    }                                                                                              \
    weft__linear_fn WEFT__LINEAR_NAME(weight, avx512vnni);                                         \
    void WEFT__LINEAR_NAME(weight, avx512vnni)(const struct weft__linear_call *call, int64_t row0, \
                                               int64_t row1)                                       \
    {                                                                                              \
        WEFT__LINEAR_TILES(call, row0, row1, many_rows, 4, tile_##weight, dot);                    \
    }

#if WEFT__LINEAR_MASKED
DOT_BLOCKS4(masked, 18, 1, false)
LINEAR_VNNI(Q4_0, dot_masked, 128, 4)
#else
LINEAR_VNNI(Q8_0, dot_q8_0, 128, 4)
LINEAR_VNNI(Q4_0, dot_q4_0, 128, 4)
LINEAR_VNNI(Q4_K, dot_q4_k, 64, 4)
#endif
#ifndef WEFT__LINEAR_ABLATED // all formats where nothing is left out
LINEAR_VNNI(Q6_K, dot_q6_k, 64, 2)
LINEAR_VNNI(Q4_1, dot_q4_1, 64, 4)
LINEAR_VNNI(Q5_0, dot_q5_0, 128, 4)
LINEAR_VNNI(Q5_1, dot_q5_1, 64, 4)
LINEAR_VNNI(Q5_K, dot_q5_k, 64, 4)
LINEAR_VNNI(Q3_K, dot_q3_k, 64, 2)
LINEAR_VNNI(Q2_K, dot_q2_k, 32, 2)
LINEAR_VNNI(IQ4_NL, dot_iq4_nl, 128, 4)
LINEAR_VNNI(IQ4_XS, dot_iq4_xs, 128, 4)
LINEAR_VNNI(MXFP4, dot_mxfp4, 128, 4)
#endif
