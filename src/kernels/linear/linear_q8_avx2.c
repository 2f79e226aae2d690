// SPDX-License-Identifier: MIT
// Quantised weights by 8-bit activations for a few rows of X (decode, small batches), with AVX2.
// The lanes of a register lie along the columns of W in the order of the weights, and several rows
// of W share each load of x. NOTES.md has the reasons and figures.
//
// vpmaddubsw wants one unsigned operand and saturates at 16 bits: nibbles and six-bit weights go as
// they are (2 * 63 * 127 < 2^15) and their offset is taken out in 16 bits, before anything is rounded;
// the signs of q8_0 move to x (2 * 128 * 127 < 2^15). Scales of several groups are made at once,
// pass through memory and come back as broadcasts, which cost no arithmetic port.
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/linear/linear_rows.h"

// A few rows of W by a few rows of X.
struct tile {
    struct weft__linear_rows w;
    struct weft__rounded_row x[WEFT__TILE_COLS];
    __m256 acc[WEFT__TILE_ROWS][WEFT__TILE_COLS];
};

WEFT__INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

WEFT__INLINE uint16_t load_half(const unsigned char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

WEFT__INLINE __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

WEFT__INLINE __m256i high_nibbles(__m256i bytes)
{
    return low_nibbles(_mm256_srli_epi16(bytes, 4));
}

// acc + scale * the sums of pairs of 16-bit words; `factors` are 1 or one scale for each half.
WEFT__INLINE __m256 add_words(__m256 acc, __m256i words, __m256i factors, const float *scale)
{
    __m256i dot = _mm256_madd_epi16(words, factors);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_broadcast_ss(scale), acc);
}

// The same of w . x, 32 products in 8 lanes.
WEFT__INLINE __m256 add_dot(__m256 acc, __m256i w, __m256i x, __m256i factors, const float *scale)
{
    return add_words(acc, _mm256_maddubs_epi16(w, x), factors, scale);
}

// The scales of four blocks.
WEFT__INLINE __m128 scales_of_blocks4(const unsigned char *blocks, int block_bytes)
{
    __m128i halves = _mm_cvtsi32_si128(load_half(blocks));
    halves = _mm_insert_epi16(halves, load_half(blocks + block_bytes), 1);
    halves = _mm_insert_epi16(halves, load_half(blocks + 2 * block_bytes), 2);
    halves = _mm_insert_epi16(halves, load_half(blocks + 3 * block_bytes), 3);
    return _mm_cvtph_ps(halves);
}

// One step of 128 columns; the blocks of row r are at blocks + r * stride.
typedef void step4_fn(struct tile *t, const unsigned char *blocks, int64_t stride, int64_t k,
                      int rows, int cols);

WEFT__INLINE void step4_q4_0(struct tile *t, const unsigned char *blocks, int64_t stride, int64_t k,
                             int rows, int cols)
{
    const __m256i ones = _mm256_set1_epi16(1), halves = _mm256_setr_epi64x(0, 0, 4, 4);
    float scale[WEFT__TILE_ROWS][WEFT__TILE_COLS][4];
    WEFT__UNROLL for (int r = 0; r < rows; r++)
    {
        __m128 d = scales_of_blocks4(blocks + r * stride, 18);
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            _mm_storeu_ps(scale[r][c], _mm_mul_ps(d, _mm_loadu_ps(t->x[c].scale + k / 32)));
        }
    }
    WEFT__UNROLL for (int b = 0; b < 4; b++)
    {
        __m256i x[WEFT__TILE_COLS], offset[WEFT__TILE_COLS];
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            x[c] = load32(t->x[c].q + k + 32 * b);
            offset[c] = _mm256_maddubs_epi16(_mm256_set1_epi8(8), x[c]);
        }
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            const unsigned char *p = blocks + r * stride + 18 * b + 2;
            __m256i q = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
            __m256i w = low_nibbles(_mm256_srlv_epi64(q, halves));
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                __m256i words = _mm256_sub_epi16(_mm256_maddubs_epi16(w, x[c]), offset[c]);
                t->acc[r][c] = add_words(t->acc[r][c], words, ones, scale[r][c] + b);
            }
        }
    }
}

WEFT__INLINE void step4_q8_0(struct tile *t, const unsigned char *blocks, int64_t stride, int64_t k,
                             int rows, int cols)
{
    const __m256i ones = _mm256_set1_epi16(1);
    WEFT__UNROLL for (int r = 0; r < rows; r++)
    {
        const unsigned char *p = blocks + r * stride;
        __m128 d = scales_of_blocks4(p, 34);
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            float scale[4];
            _mm_storeu_ps(scale, _mm_mul_ps(d, _mm_loadu_ps(t->x[c].scale + k / 32)));
            WEFT__UNROLL for (int b = 0; b < 4; b++)
            {
                __m256i w = load32(p + 34 * b + 2);
                __m256i x = _mm256_sign_epi8(load32(t->x[c].q + k + 32 * b), w);
                t->acc[r][c] = add_dot(t->acc[r][c], _mm256_abs_epi8(w), x, ones, scale + b);
            }
        }
    }
}

WEFT__INLINE void dot_blocks4(struct tile *t, int64_t k, int64_t end, int rows, int cols,
                              step4_fn *step, int block_bytes)
{
    int64_t offset = k / 32 * block_bytes;
    for (; k + 128 <= end; k += 128, offset += 4 * block_bytes) {
        weft__linear_fetch_next(&t->w, rows, offset, 4 * block_bytes);
        step(t, t->w.first + offset, t->w.stride, k, rows, cols);
    }
    if (k == end)
        return;
    // Fewer than four blocks are left: the missing ones have scale zero.
    unsigned char tail[WEFT__TILE_ROWS][4 * 34] = {{0}};
    for (int r = 0; r < rows; r++)
        memcpy(tail[r], t->w.first + r * t->w.stride + offset,
               (size_t)((end - k) / 32 * block_bytes));
    step(t, tail[0], sizeof tail[0], k, rows, cols);
}

WEFT__INLINE void dot_q4_0(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_blocks4(t, k, end, rows, cols, step4_q4_0, 18);
}

WEFT__INLINE void dot_q8_0(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_blocks4(t, k, end, rows, cols, step4_q8_0, 34);
}

// d * sc and dmin * m of the 8 groups of a q4_k block.
WEFT__INLINE void scales_q4_k(const unsigned char *block, __m256 *scale, __m256 *minimum)
{
    __m128i head = _mm_loadu_si128((const __m128i *)block);
    // Bytes of the block: 4..7 sc and the tops of sc 4..7, 8..11 m likewise, 12..15 the low
    // nibbles.
    __m128i low = _mm_shuffle_epi32(head, _MM_SHUFFLE(3, 2, 3, 1));
    low = _mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4));
    low = _mm_and_si128(low, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    __m128i high = _mm_shuffle_epi32(head, _MM_SHUFFLE(2, 2, 1, 1));
    high = _mm_and_si128(_mm_srli_epi32(high, 2), _mm_setr_epi32(0, 0x30303030, 0, 0x30303030));
    __m128i six_bits = _mm_or_si128(low, high);
    __m128 d = _mm_cvtph_ps(head);
    __m256 sc = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(six_bits));
    __m256 m = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(six_bits, six_bits)));
    *scale = _mm256_mul_ps(sc, _mm256_broadcastss_ps(d));
    *minimum = _mm256_mul_ps(m, _mm256_broadcastss_ps(_mm_movehdup_ps(d)));
}

WEFT__INLINE void step_q4_k(struct tile *t, int r, const unsigned char *block, int64_t k, int cols)
{
    const __m256i ones = _mm256_set1_epi16(1);
    float scale[WEFT__TILE_COLS][8];
    __m256 sc, m;
    scales_q4_k(block, &sc, &m);
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        _mm256_storeu_ps(scale[c], _mm256_mul_ps(sc, _mm256_loadu_ps(t->x[c].scale + k / 32)));
        t->acc[r][c] = _mm256_fnmadd_ps(m, _mm256_loadu_ps(t->x[c].scaled + k / 32), t->acc[r][c]);
    }
    WEFT__UNROLL for (int n = 0; n < 4; n++)
    {
        __m256i bytes = load32(block + 16 + 32 * n);
        __m256i w[2] = {low_nibbles(bytes), high_nibbles(bytes)};
        WEFT__UNROLL for (int c = 0; c < cols; c++) WEFT__UNROLL for (int i = 0; i < 2; i++)
        {
            t->acc[r][c] = add_dot(t->acc[r][c], w[i], load32(t->x[c].q + k + 64 * n + 32 * i),
                                   ones, scale[c] + 2 * n + i);
        }
    }
}

// Columns 32 j of a q6_k block: 32 more than the weights.
WEFT__INLINE __m256i unpack_q6_k(const unsigned char *block, int j)
{
    const __m256i two_bits = _mm256_set1_epi8(0x30);
    int n = j / 4, g = j % 4;
    __m256i low = load32(block + 64 * n + 32 * (g % 2)), top = load32(block + 128 + 32 * n);
    top = g == 0   ? _mm256_slli_epi16(top, 4)
          : g == 1 ? _mm256_slli_epi16(top, 2)
          : g == 2 ? top
                   : _mm256_srli_epi16(top, 2);
    return _mm256_or_si256(_mm256_and_si256(top, two_bits),
                           g < 2 ? low_nibbles(low) : high_nibbles(low));
}

typedef void step_fn(struct tile *t, int r, const unsigned char *block, int64_t k, int cols);

WEFT__INLINE void dot_blocks256(struct tile *t, int64_t k, int64_t end, int rows, int cols,
                                step_fn *step, int block_bytes)
{
    for (int64_t offset = k / 256 * block_bytes; k < end; k += 256, offset += block_bytes) {
        weft__linear_fetch_next(&t->w, rows, offset, block_bytes);
        WEFT__UNROLL for (int r = 0; r < rows; r++)
        {
            step(t, r, t->w.first + r * t->w.stride + offset, k, cols);
        }
    }
}

WEFT__INLINE void dot_q4_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    dot_blocks256(t, k, end, rows, cols, step_q4_k, 144);
}

// The scales of a q6_k block as words, those of even sixteens in the low half, of odd ones in the high.
WEFT__INLINE __m256i factors_q6_k(const unsigned char *block)
{
    const __m128i even_odd = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m128i bytes = _mm_loadu_si128((const __m128i *)(block + 192));
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(bytes, even_odd));
}

// Group j of the rows at `offset`, the scales of which are ready. What 32 times x would add is made once for
// all rows; which of both waits in registers depends on what there is less of.
WEFT__INLINE void group_q6_k(struct tile *t, int64_t offset, int64_t k, int j, int rows, int cols,
                             const __m256i factors[WEFT__TILE_ROWS],
                             float scale[WEFT__TILE_ROWS][WEFT__TILE_COLS][8])
{
    const __m256i pair = _mm256_set1_epi16((short)((2 * j + 1) << 8 | 2 * j));
    __m256i x[WEFT__TILE_COLS], offsets[WEFT__TILE_COLS];
    __m256i w[WEFT__TILE_ROWS], pairs[WEFT__TILE_ROWS];
    const int waiting = cols > 2 ? rows : cols, coming = cols > 2 ? cols : rows;
    WEFT__UNROLL for (int i = 0; i < waiting; i++)
    {
        if (cols > 2) {
            w[i] = unpack_q6_k(t->w.first + i * t->w.stride + offset, j);
            pairs[i] = _mm256_shuffle_epi8(factors[i], pair);
        } else {
            x[i] = load32(t->x[i].q + k + 32 * j);
            offsets[i] = _mm256_maddubs_epi16(_mm256_set1_epi8(32), x[i]);
        }
    }
    WEFT__UNROLL for (int i = 0; i < coming; i++)
    {
        if (cols > 2) {
            x[i] = load32(t->x[i].q + k + 32 * j);
            offsets[i] = _mm256_maddubs_epi16(_mm256_set1_epi8(32), x[i]);
        } else {
            w[i] = unpack_q6_k(t->w.first + i * t->w.stride + offset, j);
            pairs[i] = _mm256_shuffle_epi8(factors[i], pair);
        }
        WEFT__UNROLL for (int n = 0; n < waiting; n++)
        {
            int r = cols > 2 ? n : i, c = cols > 2 ? i : n;
            __m256i words = _mm256_sub_epi16(_mm256_maddubs_epi16(w[r], x[c]), offsets[c]);
            t->acc[r][c] = add_words(t->acc[r][c], words, pairs[r], scale[r][c] + j);
        }
    }
}

WEFT__INLINE void step_q6_k(struct tile *t, int64_t offset, int64_t k, int rows, int cols)
{
    float scale[WEFT__TILE_ROWS][WEFT__TILE_COLS][8];
    __m256i factors[WEFT__TILE_ROWS];
    WEFT__UNROLL for (int r = 0; r < rows; r++)
    {
        const unsigned char *block = t->w.first + r * t->w.stride + offset;
        __m256 d = _mm256_cvtph_ps(_mm_set1_epi16((short)load_half(block + 208)));
        factors[r] = factors_q6_k(block);
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            __m256 x = _mm256_loadu_ps(t->x[c].scale + k / 32);
            _mm256_storeu_ps(scale[r][c], _mm256_mul_ps(d, x));
        }
    }
    WEFT__UNROLL for (int j = 0; j < 8; j++)
    {
        group_q6_k(t, offset, k, j, rows, cols, factors, scale);
    }
}

WEFT__INLINE void dot_q6_k(struct tile *t, int64_t k, int64_t end, int rows, int cols)
{
    for (int64_t offset = k / 256 * 210; k < end; k += 256, offset += 210) {
        weft__linear_fetch_next(&t->w, rows, offset, 210);
        step_q6_k(t, offset, k, rows, cols);
    }
}

typedef void dot_fn(struct tile *t, int64_t k, int64_t end, int rows, int cols);

// Columns [k, end): a sum of its own, which is added to the total.
WEFT__INLINE void add_chunk(struct tile *t, int64_t k, int64_t end, int rows, int cols, dot_fn *dot,
                            __m256 *total)
{
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        t->acc[r][c] = _mm256_setzero_ps();
    }
    dot(t, k, end, rows, cols);
    WEFT__UNROLL for (int r = 0; r < rows; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        total[r * cols + c] = _mm256_add_ps(total[r * cols + c], t->acc[r][c]);
    }
}

WEFT__INLINE void multiply_tile(const struct weft__linear_call *call, int64_t row, int rows,
                                int32_t col, int cols, dot_fn *dot)
{
    const int64_t chunk = weft__linear_chunk(call->cols, 32);
    __m256 total[WEFT__TILE_ROWS * WEFT__TILE_COLS];
    struct tile t;
    WEFT__UNROLL for (int i = 0; i < rows * cols; i++)
    {
        total[i] = _mm256_setzero_ps();
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

#define LINEAR_AVX2(weight, dot)                                                                   \
    weft__linear_fn WEFT__LINEAR_NAME(weight, avx2);                                               \
    void WEFT__LINEAR_NAME(weight, avx2)(const struct weft__linear_call *call, int64_t row0,       \
                                         int64_t row1)                                             \
    {                                                                                              \
        WEFT__LINEAR_TILES(call, row0, row1, 2, 4, multiply_tile, dot);                            \
    }

LINEAR_AVX2(Q8_0, dot_q8_0)
LINEAR_AVX2(Q4_0, dot_q4_0)
LINEAR_AVX2(Q4_K, dot_q4_k)
#ifndef WEFT__LINEAR_ABLATED // all formats where nothing is left out
LINEAR_AVX2(Q6_K, dot_q6_k)
#endif
