// SPDX-License-Identifier: MIT
// An item that the blocks of a cluster share, WEFT_SPLITS of them, each with a part of its keys: the warps' states are merged in
// the block; pieces of 32 columns of a row go to a block of the cluster each, which merges them in the order of the
// blocks, so that two runs agree to the bit. No slots, no counters, no trip to memory.
//
// The kernel defines what attention_merge.cuh wants, and shared_pieces(); WEFT_HEAD_DIM is a multiple of 32. PIECES_SAY 1: bytes
// that are sent count at barriers of the block that merges them, so the cluster's barrier does not lie between pieces_send() and
// pieces_end(); the kernel has called pieces_expect() before it, and defines pieces_barrier().
#ifndef WEFT_KERNELS_ATTENTION_PIECES_CUH
#define WEFT_KERNELS_ATTENTION_PIECES_CUH

#include "src/kernels/attention/attention_piece.cuh"
#include "src/kernels/cuda/bulk.cuh"

// What the blocks send.
DEVICE float *shared_pieces(int32_t rows);

#if PIECES_SAY
// Of the pieces that a warp has to merge.
DEVICE uint64_t *pieces_barrier(int32_t warp);

// The warp's barrier, which a lane has initialised, knows how many bytes come; then the cluster's barrier.
DEVICE void pieces_expect(int32_t rows, int32_t rank, int32_t warp, int32_t lane)
{
    const int32_t own = (rows * PIECES - rank + WEFT_SPLITS - 1) / WEFT_SPLITS; // of the block
    const int32_t count = (own - warp + WARPS - 1) / WARPS;
    if (lane == 0 && count > 0)
        barrier_expect(shared_address(pieces_barrier(warp)),
                       (uint32_t)(count * WEFT_SPLITS * PIECE_FLOATS * 4));
}

// Piece `index` of a block's: two columns a lane, behind them the largest and the sum.
DEVICE void piece_send(float *own, uint32_t rank, int32_t index, int32_t lane, struct piece piece)
{
    const int32_t from = 2 * lane % WARP;
    float2 two = make_float2(__shfl_sync(0xffffffffu, piece.value, from),
                             __shfl_sync(0xffffffffu, piece.value, from + 1));
    if (lane == 16)
        two = make_float2(piece.largest, piece.sum);
    if (lane <= 16)
        cluster_send_2(own + 2 * lane, rank, two, shared_address(pieces_barrier(index % WARPS)));
}

// All pieces of the warp's are there.
DEVICE void pieces_wait(int32_t warp)
{
    barrier_wait(shared_address(pieces_barrier(warp)), 0);
}
#else
DEVICE void piece_send(float *own, uint32_t rank, int32_t, int32_t lane, struct piece piece)
{
    cluster_store(own + lane, rank, piece.value);
    if (lane < 2)
        cluster_store(own + 32 + lane, rank, lane ? piece.sum : piece.largest);
}

DEVICE void pieces_wait(int32_t)
{
}
#endif

// Piece `p` of all rows, 32 columns: the warps' states become one, which goes to the block that has the piece.
DEVICE void pieces_send(struct rows rows, int32_t rank, int32_t warp, int32_t lane)
{
    const int32_t each = (rows.count * PIECES + WEFT_SPLITS - 1) / WEFT_SPLITS;
#pragma unroll 1
    for (int32_t p = warp; p < rows.count * PIECES; p += WARPS) {
        const int32_t row = p / PIECES, d = p % PIECES * 32 + lane;
        const struct piece piece = piece_of_warps(row, d, rows.count);
        const int32_t index = p / WEFT_SPLITS;
        float *const to = shared_pieces(rows.count) + (rank * each + index) * PIECE_FLOATS;
        piece_send(to, (uint32_t)(p % WEFT_SPLITS), index, lane, piece);
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
    if (warp * WEFT_SPLITS + rank < rows.count * PIECES)
        pieces_wait(warp);
#pragma unroll 1
    for (int32_t i = warp; i * WEFT_SPLITS + rank < rows.count * PIECES; i += WARPS) {
        const int32_t p = i * WEFT_SPLITS + rank;
        const float *from = shared_pieces(rows.count) + i * PIECE_FLOATS;
        const int32_t place[3] = {32, 33, lane};
        float number[3][WEFT_SPLITS];
#pragma unroll
        for (int32_t k = 0; k < 3; k++)
#pragma unroll
            for (int32_t s = 0; s < WEFT_SPLITS; s++)
                number[k][s] = from[s * each * PIECE_FLOATS + place[k]];
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
