// SPDX-License-Identifier: MIT
// What kernels of few rows do with the keys of an item: a warp streams tiles of WEFT_KEYS keys of its own through a ring in
// shared memory (attention_ring.cuh), and makes scores, weights and sums of them. Rows of shared memory are 16 bytes
// longer than head_dim, which makes ldmatrix free of bank conflicts for every head_dim.
//
// Function constants: those of attention_decode.cu.
#ifndef WEFT_KERNELS_ATTENTION_DECODE_CUH
#define WEFT_KERNELS_ATTENTION_DECODE_CUH

#define FILLS (WEFT_HANDED == 2)

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
    // A new key, its value, cos and sin of its position.
    FRESH_BYTES = WEFT_APPEND ? 2 * ROW_BYTES + (WEFT_ROTARY + 3) / 4 * 16 : 0,
    ONE_ITEM = WEFT_CLUSTERS > 0,
    KEEPS_QUERIES = WEFT_M == 1 && WEFT_PARTS == 1 && DIM <= 128 && !WEFT_CODES,
    SCORE_STEPS = DIM > 128 ? 2 : 8,
};

static_assert(WEFT_CLUSTERS <= 1 || ROWS * STATE_FLOATS * 4 <= WEFT_STAGES * STAGE_BYTES,
              "states of a warp lie in its ring");

// Shared memory: rings | tiles in bf16 | queries | a new key and value, cos, sin (WEFT_APPEND) | states [warp][row], of those of
// sixteen rows that exist; WEFT_CLUSTERS > 1: these lie where the ring was.
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
    return (float *)(shared_fresh() + FRESH_BYTES) + (warp * rows + row) * STATE_FLOATS;
}

#if WEFT_EIGHT
#define STATE_EIGHTS 1
#endif
#include "src/kernels/attention/attention_ring.cuh"
#if FILLS
#include "src/kernels/attention/attention_kept.cuh"
#endif
#if WEFT_HANDED
#include "src/kernels/attention/attention_handed.cuh"
#else
#include "src/kernels/attention/attention_slots.cuh"
#endif
#include "src/kernels/attention/attention_log2.cuh"
#include "src/kernels/attention/attention_tile.cuh"

DEVICE float *shared_factors()
{
    return (float *)(shared_memory() + RING_BYTES + WEFT_PARTS * PART_BYTES);
}

#if WEFT_APPEND
DEVICE float2 *shared_angles()
{
    return (float2 *)(shared_fresh() + 2 * ROW_BYTES);
}

// Cos and sin of a position, a pair a thread.
DEVICE void angles_make(const struct weft__attention_device_args *args, int32_t position)
{
    static_assert(WEFT_ROTARY / 2 <= WARPS * WARP, "a pair a thread");
    if (WEFT_ROPE && threadIdx.x < WEFT_ROTARY / 2)
        shared_angles()[threadIdx.x] =
            rope_angle(position, args->turns[threadIdx.x], args->turn_factor);
}

// Zeros for the rows that no item of single queries has.
DEVICE void rows_clear(int32_t count)
{
    uint8_t *const queries = shared_memory() + RING_BYTES;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < (ROWS - count) * (ROW_BYTES / 16); i += WARPS * WARP)
#pragma unroll
        for (int32_t part = 0; part < WEFT_PARTS; part++)
            *(uint4 *)(queries + part * PART_BYTES + count * ROW_BYTES + i * 16) =
                make_uint4(0, 0, 0, 0);
    if (threadIdx.x < ROWS)
        shared_factors()[threadIdx.x] = 1;
}

// A warp per row, in WEFT_PARTS parts; the last warp has the new key, too, if it is among the `count` tiles of the place's item that
// are the block's. What all wait for is asked for at once, and what is not there is jumped over. `waits`: for the launch before, when
// all is known but what it makes.
DEVICE void queries_load(const struct weft__attention_device_args *args, const struct place *at,
                         int32_t count, int32_t warp, int32_t lane, bool waits)
{
    const struct lengths lengths = at->seq.lengths;
    const struct rows rows = rows_of(args, at);
    const int32_t position = lengths.kv_len - 1,
                  tile = position - at->seq.begin - at->tile * KEYS; // in keys of the block's
    const bool appends = warp == WARPS - 1 && position >= 0 && tile >= 0 && tile < count * KEYS;
    struct head head[ROWS_EACH];
    struct fresh fresh;
    if (waits)
        wait_for_previous();
    if (appends)
        fresh = fresh_load(args, lengths, at->seq.pages, at->kv_head, lane);
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        if (i * WARPS + warp < rows.count)
            head[i] = head_load((const float *)args->q +
                                    query_at(args, lengths, row_at(args, rows, i * WARPS + warp)),
                                lane);
    const struct turns turns = turns_by(lane, [](int32_t pair) { return shared_angles()[pair]; });
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        if (i * WARPS + warp < rows.count) {
            head_turn(&head[i], &turns, lane);
            query_store(head[i].own, shared_memory() + RING_BYTES + (i * WARPS + warp) * ROW_BYTES,
                        PART_BYTES, lane, shared_factors() + i * WARPS + warp);
        }
    if (appends)
        fresh_store(args, &fresh, &turns, at->kv_head, position, lane, shared_fresh());
}
#else
// A warp per row, in WEFT_PARTS parts. `waits`: for the launch before, when all is known but the queries themselves.
DEVICE void queries_load(const struct weft__attention_device_args *args, struct lengths lengths,
                         struct rows rows, int32_t warp, int32_t lane, bool waits)
{
    float2 x[ROWS_EACH][QUERY_PAIRS];
    int64_t from[ROWS_EACH];
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        from[i] = query_from(args, lengths, rows, i * WARPS + warp);
    if (waits)
        wait_for_previous();
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        query_fetch(args, lengths, rows, i * WARPS + warp, from[i], lane, x[i]);
#pragma unroll
    for (int32_t i = 0; i < ROWS_EACH; i++)
        if (ROWS % WARPS == 0 || i * WARPS + warp < ROWS)
            query_store(x[i], shared_memory() + RING_BYTES + (i * WARPS + warp) * ROW_BYTES,
                        PART_BYTES, lane, shared_factors() + i * WARPS + warp);
}
#endif

// --- a tile ---------------------------------------------------------------------------------------

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
