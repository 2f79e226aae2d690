// SPDX-License-Identifier: MIT
// X of linear_numbers_some.cu as f32:
//
//      [64 columns][half of them][8 rows][4 of a lane's columns][lane (n, c)]   columns 8 c + 4 k .. + 3 of the half
//
// Products are of tf32, in which W is exact. A number of X becomes two of them where it is multiplied: stored so, they were twice the bytes.
#ifndef WEFT_KERNELS_LINEAR_SENT_NUMBERS_CUH
#define WEFT_KERNELS_LINEAR_SENT_NUMBERS_CUH

DEVICE void eights_store(const struct stream *s, int32_t pair, int32_t eight, const float x[2][8],
                         bool)
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++)
#pragma unroll
        for (int32_t k = 0; k < 2; k++)
            *(float4 *)(shared_x() + (2 * pair + half) * HALF_BYTES +
                        (2 * eight + k) * PIECE_BYTES + s->lane * 16) =
                make_float4(x[half][4 * k], x[half][4 * k + 1], x[half][4 * k + 2],
                            x[half][4 * k + 3]);
}

#include "src/kernels/linear/linear_eights.cuh"

// Two numbers of W.
DEVICE float2 weights_of(uint32_t two)
{
    return WEFT_FORMAT == 2 ? f16x2_float2(two) : bf16x2_float2(two);
}

// The lane's chunk of 16 rows as A of products j, which take its columns 2 j and 2 j + 1.
DEVICE void chunk_weights(const uint8_t *slot, int32_t lane, int32_t i, uint32_t a[4][4])
{
#pragma unroll
    for (int32_t below = 0; below < 2; below++) {
        const uint4 chunk = tile_chunk(slot, lane, i, below);
        const uint32_t two[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
        for (int32_t j = 0; j < 4; j++) {
            const float2 w = weights_of(two[j]);
            a[j][below] = float_bits(w.x), a[j][2 + below] = float_bits(w.y);
        }
    }
}

// What is left of a number beside the upper 11 bits that a product takes of it. FINITE: no number of X is infinite; products take the upper 11 of these bits
// too, which are 13 at most, so 2^-21 of a number is lost.
template <bool FINITE> DEVICE uint32_t rest_of(float x)
{
    return FINITE ? float_bits(x - bits_float(tf32_cut(x))) : tf32_rest(x);
}

// The chunk by the lane's eight columns of a row of X; the upper bits of X and the rest have sums of their own.
template <bool FINITE>
DEVICE void chunk_multiply(const uint32_t a[4][4], const uint8_t *x, float high[4], float rest[4])
{
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        const float4 four = *(const float4 *)(x + k * PIECE_BYTES);
        const uint32_t *first = a[2 * k], *second = a[2 * k + 1];
        mma_tf32(high, first, float_bits(four.x), float_bits(four.y));
        mma_tf32(rest, first, rest_of<FINITE>(four.x), rest_of<FINITE>(four.y));
        mma_tf32(high, second, float_bits(four.z), float_bits(four.w));
        mma_tf32(rest, second, rest_of<FINITE>(four.z), rest_of<FINITE>(four.w));
    }
}

template <bool FINITE>
DEVICE void tile_add(const struct stream *s, const uint8_t *slot, int32_t tile,
                     float acc[COLUMNS / 2])
{
    const uint8_t *x = shared_x() + tile * 2 * HALF_BYTES + s->lane * 16;
    float high[COLUMNS / 2] = {0}, rest[COLUMNS / 2] = {0};
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        uint32_t a[4][4];
        chunk_weights(slot, s->lane, i, a);
#pragma unroll
        for (int32_t eight = 0; eight < COLUMNS / 8; eight++)
            chunk_multiply<FINITE>(a, x + i * HALF_BYTES + eight * 2 * PIECE_BYTES,
                                   high + 4 * eight, rest + 4 * eight);
    }
#pragma unroll
    for (int32_t k = 0; k < COLUMNS / 2; k++)
        acc[k] += rest[k] + high[k];
}

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *,
                          const uint8_t *slot, int32_t tile, bool finite, float acc[COLUMNS / 2])
{
    if (finite)
        tile_add<true>(s, slot, tile, acc);
    else
        tile_add<false>(s, slot, tile, acc);
}

#endif
