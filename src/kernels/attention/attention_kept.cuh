// SPDX-License-Identifier: MIT
// Shares of a batch's step that are kept (attention_filled.cuh). A block's share follows from lengths that change once a step, and finding it takes each of a step's launches
// 2 us of its start. So a block that has found it leaves it in a line of the batch's memory, and the launches after it take it from there, on the
// trip to memory that brings lengths.
//
//      line of block b: uint64_t [WEFT__ATTENTION_LINE_WORDS] at lines + b * WEFT__ATTENTION_LINE_WORDS, (word, turn): share | step | division
//
// Lengths or pages have changed, or another plan has found its own: the step or the division is another. Every word has beside it which it is of, and arrives whole, so a line that is being
// written is none; the turn is 32 bits of both, the line says them in full.
#ifndef WEFT_KERNELS_ATTENTION_KEPT_CUH
#define WEFT_KERNELS_ATTENTION_KEPT_CUH

#include "src/kernels/attention/attention_filled.cuh"
#include "src/kernels/cuda/memory.cuh"

// Of a warp, in shared memory. Where `at` and `filled.items` say that they are of a filled share they mean this one.
struct kept {
    struct place at;
    struct share share;
    struct filled filled;
    uint64_t step, division;
};

enum {
    KEPT_WORDS = sizeof(struct kept) / 4,
    KEPT_EACH = WEFT__ATTENTION_LINE_WORDS / WARP, // of a lane
};
static_assert(KEPT_WORDS <= WEFT__ATTENTION_LINE_WORDS, "a line");

DEVICE uint32_t kept_turn(uint64_t step, uint64_t division)
{
    const uint64_t both = step + division * 0x9e3779b97f4a7c15u;
    return (uint32_t)(both ^ both >> 32);
}

DEVICE uint64_t *kept_line(const struct weft__attention_device_args *args)
{
    return args->lines + (int64_t)blockIdx.x * WEFT__ATTENTION_LINE_WORDS;
}

// Is the block's line of this step? Then it is in `kept`. Lengths are asked for on the same trip.
DEVICE bool kept_look(const struct weft__attention_device_args *args, int32_t lane,
                      struct fill_lengths *lengths, struct kept *kept)
{
    uint32_t *const words = (uint32_t *)kept;
    const bool looks = args->division != 0;
    uint64_t word[KEPT_EACH] = {}, step = 0;
#pragma unroll
    for (int32_t i = 0; looks && i < KEPT_EACH; i++)
        word[i] = turn_receive(kept_line(args) + i * WARP + lane);
    if (looks)
        step = *args->step;
    fill_ask(args, lane, lengths);
    const uint32_t turn = kept_turn(step, args->division);
    bool whole = looks;
#pragma unroll
    for (int32_t i = 0; looks && i < KEPT_EACH; i++)
        if (i * WARP + lane < KEPT_WORDS) {
            words[i * WARP + lane] = (uint32_t)word[i];
            whole = whole && (uint32_t)(word[i] >> 32) == turn;
        }
    whole = __all_sync(0xffffffffu, whole);
    __syncwarp();
    whole = whole && kept->step == step && kept->division == args->division;
    __syncwarp();
    if (lane == 0) {
        kept->step = step;
        if (whole && kept->at.filled)
            kept->at.filled = &kept->filled;
        if (whole && kept->filled.items.filled)
            kept->filled.items.filled = &kept->filled;
    }
    __syncwarp();
    return whole;
}

// Leaves what the block's first warp has found.
DEVICE void kept_leave(const struct weft__attention_device_args *args, int32_t lane,
                       struct place at, struct share share, struct kept *kept)
{
    if (!args->division || threadIdx.x >= WARP)
        return;
    if (lane == 0)
        kept->at = at, kept->share = share, kept->division = args->division;
    __syncwarp();
    const uint32_t *const words = (const uint32_t *)kept;
    const uint32_t turn = kept_turn(kept->step, args->division);
    for (int32_t i = lane; i < KEPT_WORDS; i += WARP)
        turn_send(kept_line(args) + i, bits_float(words[i]), turn);
}

// The block's share: kept, found on one trip, or of more sequences, or in chunks, as all others find theirs.
DEVICE struct place place_kept(const struct weft__attention_device_args *args, int32_t lane,
                               struct kept *kept, struct fill_known *known, struct share *share)
{
    struct fill_lengths lengths;
    struct place at;
    const bool found = kept_look(args, lane, &lengths, kept);
    fill_know(&lengths, lane, known);
    if (lane == 0)
        kept->filled.known = known;
    __syncthreads(); // a warp may go on to a sequence that is known when it looks for its place
    if (found) {
        at = kept->at, *share = kept->share;
    } else if (place_fill(args, lane, &lengths, &kept->filled, &at, share)) {
        kept_leave(args, lane, at, *share, kept);
    } else {
        at = place_begin(args, lane, share);
    }
    return at;
}

#endif
