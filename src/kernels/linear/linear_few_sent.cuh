// SPDX-License-Identifier: MIT
// Two to eight rows of X by packed weights, the columns divided over a cluster (linear_sent.cuh): X in shared memory as linear_some.cuh has it, from
// numbers that the block rounds itself (WEFT_ROUND_X) or from rounded rows.
#ifndef WEFT_KERNELS_LINEAR_FEW_SENT_CUH
#define WEFT_KERNELS_LINEAR_FEW_SENT_CUH

#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_stream.cuh"

enum { TILE_COLUMNS = 256 };

#if WEFT_ROUND_X

#define EIGHT_COLUMN(c, k) (4 * (c) + 16 * (k))

// Four lanes have a group of 32: its codes, by sixteens; scale and sums as they stand in a rounded row.
DEVICE uint2 eight_round(const float x[8], uint32_t codes[2])
{
    uint32_t top = 0;
#pragma unroll
    for (int32_t i = 0; i < 8; i++)
        top = max(top, float_bits(x[i]) & 0x7fffffffu);
    const float largest = bits_float(warp_max_bits(top, 4)), factor = round_factor(largest);
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        codes[k] = 0;
#pragma unroll
        for (int32_t b = 0; b < 4; b++)
            codes[k] |= ((uint32_t)round_code(x[4 * k + b], factor) & 255u) << 8 * b;
    }
    const int32_t both = __dp4a((int32_t)codes[0], 0x01010101, 0) +
                         __dp4a((int32_t)codes[1], 0x01010101, 0) * 65536;
    const int32_t sums = warp_sum_int(both, 4), first = (int16_t)sums;
    return make_uint2(float_bits(largest / 127.0f),
                      (uint32_t)(sums - first) | ((uint32_t)first & 0xffffu));
}

DEVICE void eights_store(const struct stream *s, int32_t pair, float x[2][8], bool)
{
    const int32_t n = s->lane / 4, c = s->lane % 4;
    uint32_t codes[2][2];
    const uint2 first = eight_round(x[0], codes[0]), second = eight_round(x[1], codes[1]);
    *(uint4 *)(shared_x() + (n * x_pairs(s) + pair) * 64 + c * 16) =
        make_uint4(codes[0][0], codes[0][1], codes[1][0], codes[1][1]);
    uint4 two[2] = {make_uint4(first.x, first.y, second.x, second.y)};
    two[1] = make_uint4(
        __shfl_down_sync(0xffffffffu, first.x, 4), __shfl_down_sync(0xffffffffu, first.y, 4),
        __shfl_down_sync(0xffffffffu, second.x, 4), __shfl_down_sync(0xffffffffu, second.y, 4));
    if (c == 0 && n % 2 == 0)
        x_two(x_numbers(s), x_plane(s), pair, n, two);
}

#include "src/kernels/linear/linear_eights.cuh"

#else

enum { PIECES = 4 }; // of codes, that a thread asks for at once

DEVICE void pieces_ask(const struct stream *s, const struct weft__linear_device_args *args,
                       int32_t first, int32_t of_row, uint4 piece[PIECES])
{
#pragma unroll
    for (int32_t k = 0; k < PIECES; k++) {
        const int32_t i = first + k * THREADS;
        if (i < s->batch * of_row) {
            const struct x_pieces x = x_pieces_of(s, args, i / of_row);
            piece[k] = __ldcg(x_piece(&x, i % of_row));
        }
    }
}

DEVICE void pieces_store(const struct stream *s, int32_t first, int32_t of_row,
                         const uint4 piece[PIECES])
{
#pragma unroll
    for (int32_t k = 0; k < PIECES; k++) {
        const int32_t i = first + k * THREADS;
        if (i < s->batch * of_row)
            *(uint4 *)(shared_x() + i / of_row * x_pairs(s) * 64 + i % of_row * 16) = piece[k];
    }
}

// Scales and sums of a pair of columns in two rows, number i of these; zeros past the last.
DEVICE void two_ask(const struct stream *s, const struct weft__linear_device_args *args, int32_t i,
                    int32_t of_row, uint4 two[2])
{
    enum { TWOS = COLUMNS / 2 };
#pragma unroll
    for (int32_t k = 0; k < 2; k++) {
        const int32_t n = i % TWOS * 2 + k;
        two[k] = make_uint4(0, 0, 0, 0);
        if (i / TWOS < of_row / 4 && n < s->batch)
            two[k] = __ldcg((const uint4 *)x_pieces_of(s, args, n).metas + i / TWOS);
    }
}

DEVICE void two_store(const struct stream *s, int32_t i, const uint4 two[2])
{
    enum { TWOS = COLUMNS / 2 };
    if (i < s->tiles * 4 * TWOS)
        x_two(x_numbers(s), x_plane(s), i / TWOS, i % TWOS * 2, two);
}

// All that a thread has of X is asked for at once, where X is not long, and then the rest of the ring.
DEVICE void x_load(struct stream *s, const struct weft__linear_device_args *args)
{
    const int32_t of_row = x_pieces_of(s, args, 0).of_bytes, own = (int32_t)threadIdx.x;
    uint4 piece[PIECES], two[2];
    pieces_ask(s, args, own, of_row, piece);
    two_ask(s, args, own, of_row, two);
    stream_ask_rest(s, args);
    pieces_store(s, own, of_row, piece);
    two_store(s, own, two);
#pragma unroll 1
    for (int32_t i = own + PIECES * THREADS; i < s->batch * of_row; i += PIECES * THREADS) {
        pieces_ask(s, args, i, of_row, piece);
        pieces_store(s, i, of_row, piece);
    }
#pragma unroll 1
    for (int32_t i = own + THREADS; i < s->tiles * 16; i += THREADS) {
        two_ask(s, args, i, of_row, two);
        two_store(s, i, two);
    }
}

#endif

#endif
