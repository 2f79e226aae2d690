// SPDX-License-Identifier: MIT
// An item that the blocks of a cluster share, WEFT_SPLITS of them, each with a part of its keys: the warps' states are merged in
// the block; pieces of 32 columns of a row go to a block of the cluster each, which merges them in the order of the
// blocks, so that two runs agree to the bit. No slots, no counters, no trip to memory.
//
// The kernel defines what attention_merge.cuh wants, and shared_pieces(); WEFT_HEAD_DIM is a multiple of 32. PIECES_SAY 1: numbers
// are sent with a word that says they are there, so no barrier lies between pieces_send() and pieces_end(); shared_pieces() has
// then been cleared by pieces_clear(), before the cluster's barrier.
#ifndef WEFT_KERNELS_ATTENTION_PIECES_CUH
#define WEFT_KERNELS_ATTENTION_PIECES_CUH

#include "src/kernels/attention/attention_piece.cuh"

// A number of a piece, or that and the word beside it.
#if PIECES_SAY
typedef uint64_t piece_word;
DEVICE void piece_send(piece_word *own, uint32_t rank, float value)
{
    cluster_send(own, rank, value, 1);
}

// The numbers at three places of a piece from every block.
DEVICE void pieces_receive(const piece_word *from, int32_t stride, const int32_t place[3],
                           float number[3][WEFT_SPLITS])
{
    bool there;
    do {
        there = true;
#pragma unroll
        for (int32_t k = 0; k < 3; k++)
#pragma unroll
            for (int32_t s = 0; s < WEFT_SPLITS; s++)
                there &= cluster_look(from + s * stride + place[k], 1, &number[k][s]);
    } while (!there);
}

DEVICE void pieces_clear(piece_word *pieces, int32_t rows)
{
    const int32_t each = (rows * PIECES + WEFT_SPLITS - 1) / WEFT_SPLITS;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < WEFT_SPLITS * each * PIECE_FLOATS; i += THREADS)
        pieces[i] = 0;
}
#else
typedef float piece_word;
DEVICE void piece_send(piece_word *own, uint32_t rank, float value)
{
    cluster_store(own, rank, value);
}

DEVICE void pieces_receive(const piece_word *from, int32_t stride, const int32_t place[3],
                           float number[3][WEFT_SPLITS])
{
#pragma unroll
    for (int32_t k = 0; k < 3; k++)
#pragma unroll
        for (int32_t s = 0; s < WEFT_SPLITS; s++)
            number[k][s] = from[s * stride + place[k]];
}
#endif

// What the blocks send.
DEVICE piece_word *shared_pieces(int32_t rows);

// Piece `p` of all rows, 32 columns: the warps' states become one, which goes to the block that has the piece.
DEVICE void pieces_send(struct rows rows, int32_t rank, int32_t warp, int32_t lane)
{
    const int32_t each = (rows.count * PIECES + WEFT_SPLITS - 1) / WEFT_SPLITS;
#pragma unroll 1
    for (int32_t p = warp; p < rows.count * PIECES; p += WARPS) {
        const int32_t row = p / PIECES, d = p % PIECES * 32 + lane;
        const struct piece piece = piece_of_warps(row, d, rows.count);
        piece_word *to = shared_pieces(rows.count) + (rank * each + p / WEFT_SPLITS) * PIECE_FLOATS;
        const uint32_t block = (uint32_t)(p % WEFT_SPLITS);
        piece_send(to + lane, block, piece.value);
        if (lane < 2)
            piece_send(to + 32 + lane, block, lane ? piece.sum : piece.largest);
    }
}

DEVICE void piece_store(const struct weft__attention_device_args *args, struct lengths lengths,
                        struct row row, int32_t d, int32_t lane, float value)
{
#if WEFT_ROUNDED
    const int32_t cols = args->num_q_heads * HEAD;
    round_results((uint8_t *)args->out +
                      (lengths.first_token + row.token) * weft__linear_rounded_stride(cols),
                  cols, row.head * HEAD + d, lane, value, 1);
#else
    set_element<WEFT_Y_DTYPE>(args->out, out_at(args, lengths, row) + d, value);
#endif
}

// The block's pieces from all blocks.
DEVICE void pieces_end(const struct weft__attention_device_args *args, const struct place *at,
                       struct rows rows, int32_t rank, int32_t warp, int32_t lane)
{
    const int32_t each = (rows.count * PIECES + WEFT_SPLITS - 1) / WEFT_SPLITS;
#pragma unroll 1
    for (int32_t i = warp; i * WEFT_SPLITS + rank < rows.count * PIECES; i += WARPS) {
        const int32_t p = i * WEFT_SPLITS + rank;
        const piece_word *from = shared_pieces(rows.count) + i * PIECE_FLOATS;
        const int32_t place[3] = {32, 33, lane};
        float number[3][WEFT_SPLITS];
        pieces_receive(from, each * PIECE_FLOATS, place, number);
        const struct piece piece = piece_of_blocks(number);
        const struct row row = row_at(args, rows, p / PIECES);
        const float by = row_end(args, at->seq.lengths, row, piece.largest, piece.sum,
                                 p % PIECES == 0 && lane == 0);
        piece_store(args, at->seq.lengths, row, p % PIECES * 32 + lane, lane, piece.value * by);
    }
}

// The block's part of the item. All of them merge.
DEVICE struct place place_of_block(const struct weft__attention_device_args *args, int32_t rank)
{
    return place_of_part(args, (int32_t)blockIdx.x / WEFT_SPLITS, rank, WEFT_SPLITS, 0, 1);
}

#endif
