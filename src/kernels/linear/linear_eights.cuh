// SPDX-License-Identifier: MIT
// Rows of X as numbers, on their way into shared memory of the kernels of linear_sent.cuh: a warp takes 64 columns of eight rows at a time, and
// lane (n, c) has columns 8 c .. 8 c + 7 of each half of them in row n. What becomes of them is said by
// eights_store(s, pair, eight, x, finite), x[half][8]; finite: no number that the lane has had is infinite or NaN.
#ifndef WEFT_KERNELS_LINEAR_EIGHTS_CUH
#define WEFT_KERNELS_LINEAR_EIGHTS_CUH

#include "src/kernels/linear/linear_stream_norm.cuh"

static_assert(WEFT_WARPS % (COLUMNS / 8) == 0,
              "a warp has the same eight rows of all that it takes");

// The eight rows that the warp takes.
DEVICE int32_t eight_of_warp()
{
    return warp_of_thread() % (COLUMNS / 8);
}

// Eight columns of both halves of a row, and what they are multiplied by; zeros past the last.
struct eights {
    float4 v[4], w[4];
};

// Does a lane find all of its fours whole, in pieces of 16 bytes?
DEVICE bool eights_whole(const struct weft__linear_device_args *args)
{
    return columns_of(args) % 8 == 0 && fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride) &&
           (!args->norm_weight || fours_aligned<DTYPE_F32>(args->norm_weight, 0));
}

// Columns that the block has from column 64 pair on.
DEVICE int32_t eights_left(const struct stream *s, const struct weft__linear_device_args *args,
                           int32_t pair)
{
    const int32_t own = s->tiles * TILE_COLUMNS - pair * 64;
    return min(own, columns_of(args) - s->tile0 * TILE_COLUMNS - pair * 64);
}

// NORM: there may be weights of a norm.
template <bool WHOLE, bool NORM>
DEVICE void eights_ask(const struct stream *s, const struct weft__linear_device_args *args,
                       int32_t pair, struct eights *to)
{
    const int32_t n = eight_of_warp() * 8 + s->lane / 4;
    const int32_t left = n < s->batch ? eights_left(s, args, pair) : 0;
    const int32_t first = s->tile0 * TILE_COLUMNS + pair * 64;
    const int64_t at = x_row(s, n) * args->x_stride + first;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t col = k / 2 * 32 + 8 * (s->lane % 4) + 4 * (k % 2);
        to->v[k] = make_float4(0, 0, 0, 0);
        if (NORM)
            to->w[k] = make_float4(0, 0, 0, 0);
        if (!WHOLE) {
            to->v[k] = first_elements<WEFT_X_DTYPE>(args->x, at + col, left - col);
            to->w[k] = norm_factors(args, first + col, left - col);
        } else if (left > col) {
            to->v[k] = four_elements<WEFT_X_DTYPE>(args->x, at + col);
            if (NORM && args->norm_weight)
                to->w[k] = four_elements<DTYPE_F32>(args->norm_weight, first + col);
        }
    }
}

// Returns the squares of what is there before a norm's weights; not finite if a number is infinite or NaN.
template <bool NORM>
DEVICE float eights_take(const struct weft__linear_device_args *args, const struct eights *from,
                         float plus, float x[2][8], bool *finite)
{
    float square = 0, largest = 0;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const float4 v = from->v[k];
        float *to = x[k / 2] + k % 2 * 4;
        square += squares_of(v);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
        if (NORM && args->norm_weight) {
            const float4 w = from->w[k];
            to[0] *= w.x + plus, to[1] *= w.y + plus;
            to[2] *= w.z + plus, to[3] *= w.w + plus;
            largest += squares_of(make_float4(to[0], to[1], to[2], to[3]));
        }
    }
    *finite = *finite && square + largest < bits_float(0x7f800000u); // or they are, but large
    return square;
}

// The block's columns of X, so many pairs of halves at once; returns the lane's squares.
template <bool WHOLE, bool NORM, int32_t AT_ONCE>
DEVICE float eights_load(struct stream *s, const struct weft__linear_device_args *args,
                         bool *finite)
{
    enum { EIGHTS = COLUMNS / 8, STEP = WEFT_WARPS / EIGHTS };
    const int32_t pairs = s->tiles * (TILE_COLUMNS / 64), own_first = warp_of_thread() / EIGHTS;
    const float plus = WHOLE ? args->norm_weight_plus : 0.0f; // else it is in w
    float square = 0;
#pragma unroll 1
    for (int32_t first = own_first; first < pairs; first += AT_ONCE * STEP) {
        struct eights own[AT_ONCE];
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            eights_ask<WHOLE, NORM>(s, args, first + k * STEP, &own[k]);
        if (first == own_first)
            stream_ask_rest(s, args, SLOTS_BEFORE_X); // weights behind X, which everybody waits for
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t pair = first + k * STEP;
            float x[2][8];
            square += eights_take<NORM>(args, &own[k], plus, x, finite);
            if (pair < pairs)
                eights_store(s, pair, eight_of_warp(), x, *finite);
        }
    }
    if (pairs <= own_first)
        stream_ask_rest(s, args, SLOTS_BEFORE_X);
    return square;
}

// Returns whether all numbers that the thread has seen are finite.
DEVICE bool x_load(struct stream *s, const struct weft__linear_device_args *args)
{
    bool finite = true;
    stream_prefetch(s, args);
    wait_for_previous();
    cluster_wait();
    // without a norm's, a lane has registers for all that it takes of 16 rows of 2048 columns (of fewer, it gains nothing: NOTES.md)
    const bool whole = eights_whole(args);
    const bool some = COLUMNS == 16 && WEFT_SPLIT == 2 && !args->norm_weight;
    const float square = warp_sum(!whole ? eights_load<false, true, 1>(s, args, &finite)
                                  : some ? eights_load<true, false, 4>(s, args, &finite)
                                         : eights_load<true, true, 2>(s, args, &finite),
                                  4);
    if (s->lane % 4 == 0)
        norm_parts()[(eight_of_warp() * 8 + s->lane / 4) * WEFT_WARPS + warp_of_thread()] = square;
    return finite;
}

#endif
