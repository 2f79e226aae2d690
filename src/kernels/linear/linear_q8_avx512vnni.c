// SPDX-License-Identifier: MIT
// Quantised weights by 8-bit activations for a few rows of X (decode, small batches). The lanes of a
// register lie along the columns of W, and several rows of W share each load of x. NOTES.md has the
// reasons and figures.
//
// Weights are unsigned, as vpdpbusd wants them; their offset comes back through the sums of the
// activations, in integers.
#include "src/kernels/linear/linear_rows.h"
#include "src/kernels/linear/linear_vnni_avx512.h"

// A few rows of W by a few rows of X.
struct tile {
    struct weft__linear_rows w;
    const int8_t *q[WEFT__TILE_COLS];
    const float *scale[WEFT__TILE_COLS];
    const int32_t *sum[WEFT__TILE_COLS]; // or float
    __m512 acc[WEFT__TILE_ROWS][WEFT__TILE_COLS];
};

// Four offsets, one in each quarter of the register.
WEFT__INLINE __m512i spread_offsets(const int32_t *sum)
{
    return _mm512_maskz_broadcast_i32x4(0x8421, _mm_loadu_si128((const __m128i *)sum));
}

// Four scales, each in the four lanes of a quarter.
WEFT__INLINE __m512 spread_scales(const float *scale)
{
    const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lane, _mm512_castps128_ps512(_mm_loadu_ps(scale)));
}

// One step of 128 columns, q4_0 and q8_0; the blocks of row r are at blocks + r * stride.
WEFT__INLINE void step_blocks4(struct tile *t, const unsigned char *blocks, int64_t stride,
                               int64_t k, int rows, int cols, weft__vnni_unpack_fn *unpack)
{
    __m512i q[WEFT__TILE_COLS][2], offset[WEFT__TILE_COLS];
    __m512 scale[WEFT__TILE_COLS];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        q[c][0] = _mm512_loadu_si512(t->q[c] + k);
        q[c][1] = _mm512_loadu_si512(t->q[c] + k + 64);
        offset[c] = spread_offsets(t->sum[c] + k / 32);
        scale[c] = spread_scales(t->scale[c] + k / 32);
    }
    WEFT__UNROLL for (int r = 0; r < rows; r++)
    {
        struct weft__vnni_blocks4 b;
        unpack(blocks + r * stride, &b);
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            __m512i dot = _mm512_dpbusd_epi32(offset[c], b.w[0], q[c][0]);
            dot = _mm512_dpbusd_epi32(dot, b.w[1], q[c][1]);
            t->acc[r][c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot),
                                           _mm512_mul_ps(b.scale, scale[c]), t->acc[r][c]);
        }
    }
}

WEFT__INLINE void dot_blocks4(struct tile *t, int64_t columns, int rows, int cols,
                              weft__vnni_unpack_fn *unpack, int block_bytes, bool far)
{
    int64_t k = 0, offset = 0;
    for (; k + 128 <= columns; k += 128, offset += 4 * block_bytes) {
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            if (far) // not by a pointer to the function: gcc drops calls that only prefetch
                weft__linear_fetch_far(&t->w, r, offset, 4 * block_bytes);
            else
                weft__linear_fetch(&t->w, r, offset, 4 * block_bytes);
        }
        step_blocks4(t, t->w.first + offset, t->w.stride, k, rows, cols, unpack);
    }
    if (k == columns)
        return;
    // Fewer than four blocks are left: the missing ones have scale zero.
    unsigned char tail[WEFT__TILE_ROWS][4 * 34] = {{0}};
    for (int r = 0; r < rows; r++)
        memcpy(tail[r], t->w.first + r * t->w.stride + offset,
               (size_t)((columns - k) / 32 * block_bytes));
    step_blocks4(t, tail[0], sizeof tail[0], k, rows, cols, unpack);
}

WEFT__INLINE void dot_q4_0(struct tile *t, int64_t columns, int rows, int cols)
{
    dot_blocks4(t, columns, rows, cols, weft__vnni_unpack_q4_0, 18, true);
}

WEFT__INLINE void dot_q8_0(struct tile *t, int64_t columns, int rows, int cols)
{
    dot_blocks4(t, columns, rows, cols, weft__vnni_unpack_q8_0, 34, false);
}

WEFT__INLINE void dot_q4_k(struct tile *t, int64_t columns, int rows, int cols)
{
    // Lanes of the groups in w[0] and w[1] of each half.
    const __m512i pair02 = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2);
    const __m512i one = _mm512_set1_epi32(1), four = _mm512_set1_epi32(4);
    for (int64_t k = 0, offset = 0; k < columns; k += 256, offset += 144) {
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            const unsigned char *block = t->w.first + r * t->w.stride + offset;
            weft__linear_fetch_far(&t->w, r, offset, 144);
            __m512 scales = weft__vnni_scales_q4_k(block);
            __m512 combined[WEFT__TILE_COLS];
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                // Scales by scales, minima by scaled sums.
                const float *sum = (const float *)(const void *)t->sum[c];
                __m512 x = _mm512_insertf32x8(
                    _mm512_castps256_ps512(_mm256_loadu_ps(t->scale[c] + k / 32)),
                    _mm256_loadu_ps(sum + k / 32), 1);
                combined[c] = _mm512_mul_ps(scales, x);
                t->acc[r][c] = _mm512_mask_sub_ps(t->acc[r][c], 0xff00, t->acc[r][c], combined[c]);
            }
            WEFT__UNROLL for (int n = 0; n < 2; n++)
            {
                __m512i w[2], lane = n ? _mm512_add_epi32(pair02, four) : pair02;
                weft__vnni_unpack_q4_k(block + 16 + 64 * n, w);
                WEFT__UNROLL for (int c = 0; c < cols; c++)
                {
                    const int8_t *q = t->q[c] + k + 128 * n;
                    __m512i even =
                        _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[0], _mm512_loadu_si512(q));
                    __m512i odd = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[1],
                                                      _mm512_loadu_si512(q + 64));
                    __m512 acc = t->acc[r][c];
                    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(even),
                                          _mm512_permutexvar_ps(lane, combined[c]), acc);
                    acc = _mm512_fmadd_ps(
                        _mm512_cvtepi32_ps(odd),
                        _mm512_permutexvar_ps(_mm512_add_epi32(lane, one), combined[c]), acc);
                    t->acc[r][c] = acc;
                }
            }
        }
    }
}

WEFT__INLINE void dot_q6_k(struct tile *t, int64_t columns, int rows, int cols)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    for (int64_t k = 0, offset = 0; k < columns; k += 256, offset += 210) {
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            const unsigned char *block = t->w.first + r * t->w.stride + offset;
            weft__linear_fetch_far(&t->w, r, offset, 210);
            __m512 scales = weft__vnni_scales_q6_k(block);
            __m512 combined[WEFT__TILE_COLS];
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                __m512 x = _mm512_castps256_ps512(_mm256_loadu_ps(t->scale[c] + k / 32));
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
                        _mm512_dpbusd_epi32(spread_offsets(t->sum[c] + k / 16 + 4 * i), w[i % 2],
                                            _mm512_loadu_si512(t->q[c] + k + 64 * i));
                    t->acc[r][c] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot),
                                        _mm512_permutexvar_ps(lane, combined[c]), t->acc[r][c]);
                }
            }
        }
    }
}

typedef void dot_fn(struct tile *t, int64_t columns, int rows, int cols);

WEFT__INLINE void multiply_tile(const struct weft__linear_call *call, int64_t row, int rows,
                                int32_t col, int cols, dot_fn *dot)
{
    const struct weft__q8_acts *acts = &call->acts;
    struct tile t;
    t.w = weft__linear_rows_at(call, row, rows);
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        int64_t m = weft__linear_tile_col(call, col, c);
        t.q[c] = acts->q + m * acts->stride;
        t.scale[c] = acts->scale + m * acts->stride / 32;
        t.sum[c] = (const int32_t *)acts->sum + m * acts->stride / acts->layout->sum_elems;
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            t.acc[r][c] = _mm512_setzero_ps();
        }
    }
    dot(&t, call->cols, rows, cols);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (col + c < call->batch)
            weft__linear_store(call, col + c, row + r, vf32_sum(t.acc[r][c]));
    }
}

#define LINEAR_VNNI(weight, dot)                                                                   \
    weft__linear_fn weft__linear_##weight##_q8_avx512vnni;                                         \
    void weft__linear_##weight##_q8_avx512vnni(const struct weft__linear_call *call, int64_t row0, \
                                               int64_t row1)                                       \
    {                                                                                              \
        if (call->batch > 4 && !call->batch_invariant)                                             \
            weft__linear_gemm_##weight##_avx512vnni(call, row0, row1);                             \
        else                                                                                       \
            WEFT__LINEAR_TILES(call, row0, row1, 2, 4, multiply_tile, dot);                        \
    }

LINEAR_VNNI(Q8_0, dot_q8_0)
LINEAR_VNNI(Q4_0, dot_q4_0)
LINEAR_VNNI(Q4_K, dot_q4_k)
LINEAR_VNNI(Q6_K, dot_q6_k)
