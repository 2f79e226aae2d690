// SPDX-License-Identifier: MIT
// What decode works at, and scores of a tile of it in units of log2, masked where they have to be.
#ifndef WEFT_KERNELS_ATTENTION_LOG2_CUH
#define WEFT_KERNELS_ATTENTION_LOG2_CUH

#include "src/kernels/attention/attention_acc.cuh"
#include "src/kernels/attention/attention_scores.cuh"

// What the rows of queries have been divided by.
DEVICE float *shared_factors();

// What the block works at, in shared memory.
struct work {
    struct place at;
    struct rows rows;   // of the item
    struct keys by_all; // keys that every row of it sees
    struct share share;
#if WEFT_HANDED
    struct ended ended;
#endif
};

// Only at the ends of what a row sees, so what it sees is found anew.
DEVICE bool tile_is_masked(const struct work *work, int32_t key0)
{
    return key0 < work->by_all.begin || key0 + KEYS > work->by_all.end;
}

// What the lane's rows see of a tile whose mask has to be looked up (row_sees()), KEYS / 4 bits each. One text for all of
// them: it is long, and found cold when a sequence ends.
DEVICE uint32_t tile_seen(const struct weft__attention_device_args *args, const struct work *work,
                          int32_t key0, int32_t lane)
{
    uint32_t seen = 0;
#if WEFT_SCATTER
    if (!tile_is_masked(work, key0))
        return seen;
#pragma unroll 1
    for (int32_t i = 0; i < 2 * ROW_SIXTEENS; i++)
        seen |= row_sees(args, work->rows, work->at.seq.lengths, lane / 4 + 8 * i, key0, lane)
                << KEYS / 4 * i;
#endif
    return seen;
}

// Scores of rows `row0` to row0 + 15 in units of log2. seen: tile_seen().
DEVICE void tile_log2(const struct weft__attention_device_args *args, const struct work *work,
                      int32_t row0, int32_t key0, int32_t lane, uint32_t seen,
                      float score[KEYS / 8][4])
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const float factor = FACTORS ? shared_factors()[row0 + lane / 4 + 8 * half] : 1.0f;
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int32_t i = 2 * half; i < 2 * half + 2; i++)
                score[t][i] *= factor;
    }
    scores_cap<KEYS / 8, 4>(args, score);
#pragma unroll
    for (int32_t half = 0; WEFT_ALIBI && half < 2; half++) {
        const int32_t at = row0 + lane / 4 + 8 * half;
        const struct row row = row_at(args, work->rows, min(at, work->rows.count - 1));
        const float slope = slope_of(args, row.head);
        const int32_t own = work->at.seq.lengths.kv_len - work->at.seq.lengths.q_len + row.token;
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int32_t i = 2 * half; i < 2 * half + 2; i++)
                score[t][i] =
                    score_biased(score[t][i], slope, own - (key0 + 8 * t + 2 * (lane % 4) + i % 2));
    }
    if (tile_is_masked(work, key0))
#if WEFT_SCATTER
        scores_hide(seen >> KEYS * row0 / 32, KEYS / 4, score);
#else
        scores_mask(args, work->rows, work->at.seq.lengths, row0, key0, lane, score);
    (void)seen;
#endif
}

#endif
