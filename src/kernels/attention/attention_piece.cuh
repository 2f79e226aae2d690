// SPDX-License-Identifier: MIT
// Pieces of 32 columns of a row: what the warps of a block have of one, and what several blocks have, each with a part of the
// keys, in the order of the blocks, so that two runs agree to the bit. WEFT_SPLITS: blocks.
#ifndef WEFT_KERNELS_ATTENTION_PIECE_CUH
#define WEFT_KERNELS_ATTENTION_PIECE_CUH

#include "src/kernels/attention/attention_merge.cuh"

enum {
    PIECES = HEAD / 32,    // of a row
    PIECE_FLOATS = 32 + 2, // acc, largest, sum
};

// The lane's column.
struct piece {
    float largest, sum, value;
};

// Column `d` of a row, of all states in shared memory.
DEVICE struct piece piece_of_warps(int32_t row, int32_t d, int32_t rows)
{
    struct piece piece = {NEGATIVE_INFINITY, 0, 0};
#pragma unroll
    for (int32_t w = 0; w < WARPS; w++)
        piece.largest = fmaxf(piece.largest, shared_state(w, row, rows)[DIM]);
#pragma unroll
    for (int32_t w = 0; w < WARPS; w++) {
        const float *state = shared_state(w, row, rows);
        const float factor = weight_of(state[DIM], piece.largest);
        piece.sum += factor * state[DIM + 1];
        piece.value += factor * state[d];
    }
    return piece;
}

// number: largest, sum and value by block.
DEVICE struct piece piece_of_blocks(const float number[3][WEFT_SPLITS])
{
    struct piece piece = {NEGATIVE_INFINITY, 0, 0};
#pragma unroll
    for (int32_t s = 0; s < WEFT_SPLITS; s++)
        piece.largest = fmaxf(piece.largest, number[0][s]);
#pragma unroll
    for (int32_t s = 0; s < WEFT_SPLITS; s++) {
        const float factor = weight_of(number[0][s], piece.largest);
        piece.sum += factor * number[1][s];
        piece.value += factor * number[2][s];
    }
    return piece;
}

// The same by lanes that have a state each: lane w the largest and the sum of warp or block w of `count`, all lanes their columns of it
// in value[w]. A weight is made once, and text that is found cold is short.
template <int COUNT>
DEVICE struct piece piece_of_lanes(int32_t lane, float2 state, const float value[COUNT])
{
    const float own = lane < COUNT ? state.x : NEGATIVE_INFINITY;
    struct piece piece = {warp_max(own, WARP), 0, 0};
    const float factor = weight_of(own, piece.largest);
#pragma unroll
    for (int32_t w = 0; w < COUNT; w++) {
        const float by = __shfl_sync(0xffffffffu, factor, w);
        piece.sum += by * __shfl_sync(0xffffffffu, state.y, w);
        piece.value += by * value[w];
    }
    return piece;
}

#endif
