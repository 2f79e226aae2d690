// SPDX-License-Identifier: MIT
// What kernels of few rows do with the keys of an item: a warp streams tiles of WEFT_KEYS keys of its own through a ring in
// shared memory (attention_ring.cuh), and makes scores, weights and sums of them. Rows of shared memory are 16 bytes
// longer than head_dim, which makes ldmatrix free of bank conflicts for every head_dim.
//
// Function constants: those of attention_decode.cu.
#ifndef WEFT_KERNELS_ATTENTION_DECODE_CUH
#define WEFT_KERNELS_ATTENTION_DECODE_CUH

#include <stdint.h>

enum {
    HEAD = WEFT_HEAD_DIM,
    DIM = (HEAD + 15) / 16 * 16, // as tensor cores take it; the rest is zeros
    ROWS = 16 * WEFT_M,
    WARPS = WEFT_WARPS ? WEFT_WARPS : 4,
    ROWS_EACH = (ROWS + WARPS - 1) / WARPS, // of queries, of a warp
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    CHUNKS = HEAD * (WEFT_CACHE > 3 ? 1 : 2) / 16, // of 16 bytes in a row
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * (WEFT_BOXES == 1 ? HEAD * 2 : ROW_BYTES),
    RAW_ROW_BYTES = WEFT_CACHE > 3 ? HEAD : PLANE_BYTES / KEYS, // as the cache has it
    RAW_PLANE_BYTES = KEYS * RAW_ROW_BYTES,
    STAGE_BYTES =
        2 * RAW_PLANE_BYTES + (WEFT_SCALED ? 8 * KEYS : 0), // keys, values, scales of both
    WIDE_BYTES = WEFT_CACHE > 3 && !WEFT_CODES ? 2 * PLANE_BYTES : 0, // a warp's tile in bf16
    RING_BYTES = WARPS * (WEFT_STAGES * STAGE_BYTES + WIDE_BYTES),
    PART_BYTES = ROWS * ROW_BYTES,
    QUERY_BYTES = WEFT_PARTS * PART_BYTES + 4 * ROWS, // and a factor a row
    STATE_FLOATS = DIM + 4,                           // acc, largest, sum; padded
    FRESH_BYTES = 2 * ROW_BYTES,                      // a new key, its value
    ALL_FRESH_BYTES = WEFT_BOXES && WEFT_APPEND ? WARPS * WEFT_STAGES * FRESH_BYTES : 0,
    ONE_ITEM = WEFT_CLUSTERS > 0,
    KEEPS_QUERIES = WEFT_M == 1 && WEFT_PARTS == 1 && DIM <= 128 && !WEFT_CODES,
};

static_assert(WEFT_CLUSTERS <= 1 || ROWS * STATE_FLOATS * 4 <= WEFT_STAGES * STAGE_BYTES,
              "states of a warp lie in its ring");

// Shared memory: rings | tiles in bf16 | queries | new keys and values of all slots (WEFT_BOXES and WEFT_APPEND) |
// states [warp][row], of those of sixteen rows that exist; WEFT_CLUSTERS > 1: these lie where the ring was.
static __device__ __forceinline__ uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

static __device__ __forceinline__ uint8_t *shared_fresh()
{
    return shared_memory() + RING_BYTES + QUERY_BYTES;
}

static __device__ __forceinline__ float *shared_state(int32_t warp, int32_t row, int32_t rows)
{
    if (WEFT_CLUSTERS > 1)
        return (float *)(shared_memory() + warp * WEFT_STAGES * STAGE_BYTES) + row * STATE_FLOATS;
    return (float *)(shared_fresh() + ALL_FRESH_BYTES) + (warp * rows + row) * STATE_FLOATS;
}

#include "src/kernels/attention/attention_ring.cuh"
#if WEFT_HANDED
#include "src/kernels/attention/attention_handed.cuh"
#else
#include "src/kernels/attention/attention_slots.cuh"
#endif
#include "src/kernels/attention/attention_tile.cuh"

// What the rows of queries have been divided by.
DEVICE float *shared_factors()
{
    return (float *)(shared_memory() + RING_BYTES + WEFT_PARTS * PART_BYTES);
}

// A warp per row, in WEFT_PARTS parts.
DEVICE void queries_load(const struct weft__attention_device_args *args, struct lengths lengths,
                         struct rows rows, int32_t warp, int32_t lane)
{
    float2 x[ROWS_EACH][QUERY_PAIRS];
#if WEFT_APPEND
    const struct turns turns = turns_of(args, lengths.kv_len - 1, lane);
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++) {
        const struct row row = row_at(args, rows, min(i * WARPS + warp, rows.count - 1));
        struct head head = head_load((const float *)args->q + query_at(args, lengths, row), lane);
        head_turn(&head, &turns, lane);
#pragma unroll
        for (int32_t j = 0; j < QUERY_PAIRS; j++)
            x[i][j] = i * WARPS + warp < rows.count ? head.own[j] : make_float2(0, 0);
    }
#else
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        query_fetch(args, lengths, rows, i * WARPS + warp, lane, x[i]);
#endif
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        if (ROWS % WARPS == 0 || i * WARPS + warp < ROWS)
            query_store(x[i], shared_memory() + RING_BYTES + (i * WARPS + warp) * ROW_BYTES,
                        PART_BYTES, lane, shared_factors() + i * WARPS + warp);
}

// --- a tile ---------------------------------------------------------------------------------------

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
        const int32_t at = row0 + lane / 4 + 8 * half;
        const float factor = FACTORS ? shared_factors()[at] : 1;
        float slope = 0;
        int32_t own = 0;
#if WEFT_ALIBI
        const struct row row = row_at(args, work->rows, min(at, work->rows.count - 1));
        slope = slope_of(args, row.head);
        own = work->at.seq.lengths.kv_len - work->at.seq.lengths.q_len + row.token;
#endif
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int32_t i = 2 * half; i < 2 * half + 2; i++) {
                const int32_t far = own - (key0 + 8 * t + 2 * (lane % 4) + i % 2);
                score[t][i] =
                    score_log2(args, FACTORS ? score[t][i] * factor : score[t][i], slope, far);
            }
    }
    if (tile_is_masked(work, key0))
#if WEFT_SCATTER
        scores_hide(seen >> KEYS * row0 / 32, KEYS / 4, score);
#else
        scores_mask(args, work->rows, work->at.seq.lengths, row0, key0, lane, score);
    (void)seen;
#endif
}

// The warp's tiles of an item, from `tile` on: scores, weights, sums.
DEVICE void tiles_walk(const struct weft__attention_device_args *args, const struct work *work,
                       struct ring *ring, int32_t tile, int32_t end,
                       struct state state[ROW_SIXTEENS])
{
    const int32_t lane = ring->lane;
    const uint32_t queries = shared_address(shared_memory() + RING_BYTES);
    struct queries kept;
    queries_keep(queries, lane, &kept);
    for (; tile < end; tile += WARPS) {
        const int32_t key0 = work->at.seq.begin + tile * KEYS;
        float score[ROW_SIXTEENS][KEYS / 8][4] = {};
        const uint8_t *from = ring_wait(ring, &work->at.seq, key0);
        const float *scales = (const float *)(from + 2 * RAW_PLANE_BYTES);
#if WEFT_CODES
        uint32_t odd = 0;
        codes_scores(queries, from, lane, score[0], &odd);
#else
#if WEFT_CACHE > 3
        uint8_t *wide =
            shared_memory() + WARPS * WEFT_STAGES * STAGE_BYTES + ring->warp * WIDE_BYTES;
        tile_widen<4>(from, wide, lane, WARP);
        __syncwarp();
        from = wide;
#endif
        tile_scores(queries, &kept, from, lane, score);
#endif
        const uint32_t seen = tile_seen(args, work, key0, lane);
#pragma unroll
        for (int32_t m = 0; m < ROW_SIXTEENS; m++) {
            if (WEFT_SCALED)
                scores_scale(scales, lane, score[m]);
            tile_log2(args, work, 16 * m, key0, lane, seen, score[m]);
            tile_weights(&state[m], score[m]);
            if (WEFT_SCALED)
                scores_scale(scales + KEYS, lane, score[m]);
        }
#if WEFT_CODES
        codes_values(from + RAW_PLANE_BYTES, lane, score[0], state, &odd);
        if (__any_sync(0xffffffffu, odd != 0))
            state->sum[0] = state->sum[1] = bits_float(0x7fc00000u);
#else
        tile_values(from, lane, score, state);
#endif
        __syncwarp();
        ring_ask(args, ring);
    }
}

#endif
