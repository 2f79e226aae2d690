// SPDX-License-Identifier: MIT
// Eight rows of X of linear_numbers_some.cu in parts whose sum a number is:
//
//      bf16   [64 columns][half of them][3 terms of bf16][lane (n, c)]         columns 8 c .. 8 c + 7 of the half
//      f16    [64 columns][half of them][2 parts of tf32][four][lane (n, c)]   columns 8 c + 4 four .. + 3
#ifndef WEFT_KERNELS_LINEAR_SENT_TERMS_CUH
#define WEFT_KERNELS_LINEAR_SENT_TERMS_CUH

enum { PARTS = WEFT_FORMAT == 2 ? 2 : 3 };

#if WEFT_FORMAT == 3

DEVICE void half_store(uint8_t *to, float x[8], bool finite)
{
    uint32_t term[PARTS][4];
#pragma unroll
    for (int32_t k = 0; k < PARTS; k++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            term[k][i] = term_cut(&x[2 * i], &x[2 * i + 1]);
    if (!finite)
#pragma unroll
        for (int32_t i = 0; i < 4; i++) {
            term[1][i] = term_of_finite(term[0][i], term[1][i]);
            term[2][i] = term_of_finite(term[0][i], term[2][i]);
        }
#pragma unroll
    for (int32_t k = 0; k < PARTS; k++)
        *(uint4 *)(to + k * PIECE_BYTES) =
            make_uint4(term[k][0], term[k][1], term[k][2], term[k][3]);
}

// The lane's chunk of 16 rows by what it has of a row of X.
DEVICE void chunk_multiply(uint4 top, uint4 bottom, const uint8_t *x, float d[PARTS][4])
{
    const uint32_t first[4] = {top.x, bottom.x, top.y, bottom.y};
    const uint32_t second[4] = {top.z, bottom.z, top.w, bottom.w};
#pragma unroll
    for (int32_t term = 0; term < PARTS; term++) {
        const uint4 b = *(const uint4 *)(x + term * PIECE_BYTES);
        mma_bf16(d[term], first, b.x, b.y);
        mma_bf16(d[term], second, b.z, b.w);
    }
}

#else

DEVICE void half_store(uint8_t *to, float x[8], bool)
{
#pragma unroll
    for (int32_t part = 0; part < PARTS; part++)
#pragma unroll
        for (int32_t k = 0; k < 2; k++) {
            uint32_t own[4];
#pragma unroll
            for (int32_t i = 0; i < 4; i++)
                own[i] = part ? tf32_rest(x[4 * k + i]) : tf32_cut(x[4 * k + i]);
            *(uint4 *)(to + (2 * part + k) * PIECE_BYTES) =
                make_uint4(own[0], own[1], own[2], own[3]);
        }
}

DEVICE void chunk_multiply(uint4 top, uint4 bottom, const uint8_t *x, float d[PARTS][4])
{
    const uint32_t w[2][4] = {{top.x, top.y, top.z, top.w},
                              {bottom.x, bottom.y, bottom.z, bottom.w}};
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        uint32_t a[2][4];
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
#pragma unroll
            for (int32_t row = 0; row < 2; row++) {
                const float2 two = f16x2_float2(w[row][2 * k + i]);
                a[i][row] = float_bits(two.x), a[i][2 + row] = float_bits(two.y);
            }
#pragma unroll
        for (int32_t part = 0; part < PARTS; part++) {
            const uint4 b = *(const uint4 *)(x + (2 * part + k) * PIECE_BYTES);
            mma_tf32(d[part], a[0], b.x, b.y);
            mma_tf32(d[part], a[1], b.z, b.w);
        }
    }
}

#endif

DEVICE void eights_store(const struct stream *s, int32_t pair, int32_t, float x[2][8], bool finite)
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++)
        half_store(shared_x() + (2 * pair + half) * HALF_BYTES + s->lane * 16, x[half], finite);
}

#include "src/kernels/linear/linear_eights.cuh"

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *,
                          const uint8_t *slot, int32_t tile, bool, float acc[4])
{
    float d[PARTS][4] = {{0}};
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        chunk_multiply(tile_chunk(slot, s->lane, i, 0), tile_chunk(slot, s->lane, i, 1),
                       shared_x() + (tile * 2 + i) * HALF_BYTES + s->lane * 16, d);
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        float sum = 0; // the smallest first
#pragma unroll
        for (int32_t part = PARTS - 1; part >= 0; part--)
            sum += d[part][k];
        acc[k] += sum;
    }
}

#endif
