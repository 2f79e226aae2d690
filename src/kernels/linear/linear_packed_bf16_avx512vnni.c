// SPDX-License-Identifier: MIT
// bf16 weights in 12 bits (linear_packed_bf16.h) by a few rows of X in f32: the rows of a task are four streams, of which a unit
// each is multiplied by turns, so that no stream's pause at the end of a page is the thread's. The sum of a row of W by a row of X
// adds the same products in the same order whatever the batch is; weights that stand in the list come last.
#include <math.h>

#include "src/base/half.h"
#include "src/kernels/linear/linear_packed_bf16_avx512.h"

enum {
    ROWS = 4, // of W, one of each stream
    SOME = 4, // rows of X whose sums stay in registers
    AHEAD_BYTES = 3072,
};

static float weight_of(uint16_t word)
{
    return weft__bf16_to_f32(word);
}

// The product of a row of W by one of X in double: where neither is finite, a weight that stands in the list is not 0.
static float multiply_row(const struct weft__linear_call *call, int64_t row, const float *x)
{
    double sum = 0;
    for (int64_t k = 0; k < call->cols; k += WEFT__CODES_COLS) {
        union {
            __m512i groups[4];
            uint16_t w[WEFT__CODES_COLS];
        } unit;
        take_unit(call, row, k, unit.groups);
        for (int i = 0; i < WEFT__CODES_COLS; i++)
            sum += (double)weight_of(unit.w[i]) * (double)x[k + i];
    }
    return (float)sum;
}

// What the weights in the list add to a sum.
static float add_others(const struct weft__linear_call *call, int64_t row, const float *x,
                        float dot)
{
    const struct weft__codes_other *from = weft__codes_others(call, row),
                                   *end = weft__codes_others(call, row + 1);
    double sum = (double)dot;
    if (from == end)
        return dot;
    for (; from < end; from++)
        sum += (double)weight_of(from->weight) * (double)x[from->col];
    return isnan(sum) ? multiply_row(call, row, x) : (float)sum;
}

// A unit of a row of W by `cols` rows of X from their column of the same place on. The three lines at `ahead` are asked for one by
// one between the products: together they cost 3 %.
WEFT__INLINE void add_unit(__m512 acc[SOME], const unsigned char *unit, const float *const x[SOME],
                           int64_t k, int cols, __m512i exponents, const unsigned char *ahead)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    const __m512i codes = _mm512_load_si512(unit);
    WEFT__UNROLL for (int g = 0; g < 4; g++)
    {
        if (g < 3)
            __asm__ volatile("prefetcht0 %0" : : "m"(ahead[64 * g]) : "memory");
        __m512i bytes = _mm512_load_si512(unit + 64 + g / 2 * 64);
        if (g % 2)
            bytes = _mm512_shuffle_epi8(bytes, codes_swap());
        const __m512i w =
            codes_words(g ? _mm512_srli_epi16(codes, 4u * (unsigned)g) : codes, bytes, exponents);
        const __m512 first = _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)),
                     second = _mm512_castsi512_ps(_mm512_and_si512(w, high));
        WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            const float *at = x[c] + k + 32 * g;
            acc[c] = _mm512_fmadd_ps(first, _mm512_loadu_ps(at), acc[c]);
            acc[c] = _mm512_fmadd_ps(second, _mm512_loadu_ps(at + 16), acc[c]);
        }
    }
}

// A row of W of each stream, from `row` on `apart` rows from one another and before row1, by rows [col, col + cols) of X. Behind
// them is asked for what lies at `next` likewise.
WEFT__INLINE void multiply_rows(const struct weft__linear_call *call, int64_t row, int64_t apart,
                                int64_t row1, const unsigned char *next, int32_t col, int cols)
{
    const int64_t stride = call->weight_stride_bytes, sum = weft__linear_chunk(call->cols, 16);
    const __m512i exponents = _mm512_load_si512(weft__codes_head_of(call));
    const unsigned char *w = call->weight + row * stride;
    const float *x[SOME];
    __m512 total[ROWS][SOME];
    int64_t from[ROWS];
    for (int r = 0; r < ROWS; r++)
        from[r] = (row + r * apart < row1 ? r * apart : row1 - 1 - row) * stride;
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        x[c] = call->x + (col + c < call->batch ? col + c : call->batch - 1) * call->x_stride;
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < cols; c++)
            total[r][c] = _mm512_setzero_ps();
    for (int64_t k = 0, at = 0; k < call->cols;) {
        const int64_t end = call->cols - k < sum ? call->cols : k + sum;
        __m512 acc[ROWS][SOME];
        WEFT__UNROLL for (int r = 0; r < ROWS; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            acc[r][c] = _mm512_setzero_ps();
        }
        for (; k < end; k += WEFT__CODES_COLS, at += WEFT__CODES_BYTES) {
            const int64_t far = at + AHEAD_BYTES;
            const unsigned char *ahead = far < stride ? w + far : next + (far - stride);
            WEFT__UNROLL for (int r = 0; r < ROWS; r++)
            {
                add_unit(acc[r], w + from[r] + at, x, k, cols, exponents,
                         ahead + r * apart * stride);
            }
        }
        WEFT__UNROLL for (int r = 0; r < ROWS; r++) WEFT__UNROLL for (int c = 0; c < cols; c++)
        {
            total[r][c] = _mm512_add_ps(total[r][c], acc[r][c]);
        }
    }
    for (int r = 0; r < ROWS && row + r * apart < row1; r++)
        for (int c = 0; c < cols && col + c < call->batch; c++)
            weft__linear_store(call, col + c, row + r * apart,
                               add_others(call, row + r * apart, x[c], vf32_sum(total[r][c])));
}

weft__linear_fn weft__linear_BF16_f32_packed_avx512vnni;
void weft__linear_BF16_f32_packed_avx512vnni(const struct weft__linear_call *call, int64_t row0,
                                             int64_t row1)
{
    const int64_t apart = (row1 - row0 + ROWS - 1) / ROWS, stride = call->weight_stride_bytes;
    for (int64_t row = row0; row < row0 + apart; row++) {
        const unsigned char *next =
            call->weight + (row + 1 < row0 + apart ? row + 1 : row1) * stride;
        if (row + 1 == row0 + apart && call->next && row1 >= call->next_from)
            next = call->next;
        if (call->batch == 1)
            multiply_rows(call, row, apart, row1, next, 0, 1);
        else if (call->batch == 2)
            multiply_rows(call, row, apart, row1, next, 0, 2);
        else
            for (int32_t col = 0; col < call->batch; col += SOME)
                multiply_rows(call, row, apart, row1, next, col, SOME);
    }
}
