// SPDX-License-Identifier: MIT
// One row of X, numbers that no norm precedes, rounded by a block on its way into shared memory, the columns that it has (linear_few.cu with
// WEFT_ROUND_X 2, linear_few_sent.cu). Everybody waits for this: a warp takes a tile at a time, of which four lanes have eight columns each of a
// unit, 4 c and 16 + 4 c on, and all that can be said of X before it is there has been said (x_own).
#ifndef WEFT_KERNELS_LINEAR_FEW_X_ONE_CUH
#define WEFT_KERNELS_LINEAR_FEW_X_ONE_CUH

#include "src/kernels/linear/linear_few_places.cuh"
#include "src/kernels/linear/linear_stream.cuh"

#define X_OWN 1

enum {
    X_TILES = (WEFT_COLS / 256 + WEFT_SPLIT - 1) / WEFT_SPLIT, // of the block; 0: not known
    X_STEPS = (X_TILES + WEFT_WARPS - 1) / WEFT_WARPS,
    X_AT_ONCE = X_STEPS == 0  ? 1
                : X_STEPS < 4 ? X_STEPS
                              : 4, // tiles of a warp
};

struct x_own {
    int64_t at;    // element of X with which the lane's columns begin, in the warp's first tile
    int32_t left;  // columns of the row from there on
    int32_t whole; // are fours in one piece?
};

DEVICE struct x_own x_own_of(const struct stream *s, const struct weft__linear_device_args *args)
{
    const int32_t col = (s->tile0 + warp_of_thread()) * 256 + s->lane / 4 * 32 + s->lane % 4 * 4;
    struct x_own own = {x_row(s, 0) * args->x_stride + col, columns_of(args) - col,
                        columns_of(args) % 4 == 0 &&
                            fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride)};
    asm volatile("" : "+l"(own.at), "+r"(own.left), "+r"(own.whole));
    return own;
}

// X_AT_ONCE tiles of the warp, from tile `first` of the block on. (No loop here has a counter: v would lie in local memory, and what is asked for next would
// wait for it.)
DEVICE void x_ask(const struct stream *s, const struct weft__linear_device_args *args,
                  const struct x_own *own, int32_t first, float4 v[X_AT_ONCE][2])
{
#pragma unroll
    for (int32_t k = 0; k < 2 * X_AT_ONCE; k++)
        v[k / 2][k % 2] = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int32_t k = 0; k < 2 * X_AT_ONCE; k++) {
        const int32_t tile = first + k / 2 * WEFT_WARPS;
        const int32_t col = (tile - warp_of_thread()) * 256 + 16 * (k % 2);
        if (own->whole && tile < s->tiles && own->left > col)
            v[k / 2][k % 2] = four_elements<WEFT_X_DTYPE>(args->x, own->at + col);
    }
    if (own->whole)
        return;
#pragma unroll
    for (int32_t k = 0; k < 2 * X_AT_ONCE; k++) {
        const int32_t tile = first + k / 2 * WEFT_WARPS;
        const int32_t col = (tile - warp_of_thread()) * 256 + 16 * (k % 2);
        if (tile < s->tiles)
            v[k / 2][k % 2] = first_elements<WEFT_X_DTYPE>(args->x, own->at + col, own->left - col);
    }
}

DEVICE void x_unit_store(const struct stream *s, int32_t unit, const float4 v[2])
{
    const float x[8] = {v[0].x, v[0].y, v[0].z, v[0].w, v[1].x, v[1].y, v[1].z, v[1].w};
    const int32_t c = s->lane % 4;
    uint32_t codes[2];
    const float largest = round_words(x, codes);
    *(uint2 *)(shared_x() + unit / 2 * 64 + c * 16 + unit % 2 * 8) = make_uint2(codes[0], codes[1]);
    const int32_t both =
        __dp4a((int32_t)codes[0], 0x01010101, 0) + __dp4a((int32_t)codes[1], 0x01010101, 0) * 65536;
    const int32_t sums = warp_sum_int(both, 4), first = (int16_t)sums;
    if (c == 0)
        *(uint2 *)(shared_x() + x_pairs(s) * 64 + unit * 8) = make_uint2(
            float_bits(largest / 127.0f), (uint32_t)(sums - first) | ((uint32_t)first & 0xffffu));
}

// The tiles that x_ask() has asked for first, and the rest.
DEVICE void x_take(const struct stream *s, const struct weft__linear_device_args *args,
                   const struct x_own *own, float4 v[X_AT_ONCE][2])
{
#pragma unroll 1
    for (int32_t first = warp_of_thread(); first < s->tiles;) {
#pragma unroll
        for (int32_t k = 0; k < X_AT_ONCE; k++)
            if (first + k * WEFT_WARPS < s->tiles)
                x_unit_store(s, (first + k * WEFT_WARPS) * 8 + s->lane / 4, v[k]);
        first += X_AT_ONCE * WEFT_WARPS;
        if (first < s->tiles)
            x_ask(s, args, own, first, v);
    }
}

// X, where the next launch's blocks may start once it has been asked for.
DEVICE void x_load_alone(const struct stream *s, const struct weft__linear_device_args *args,
                         const struct x_own *own)
{
    float4 v[X_AT_ONCE][2];
    x_ask(s, args, own, warp_of_thread(), v);
    let_next_start();
    x_take(s, args, own, v);
}

#endif
