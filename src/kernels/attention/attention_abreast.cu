// SPDX-License-Identifier: MIT
// Attention of a few queries per sequence over pages of few tokens, as attention_decode.cu has it, by blocks that read whole tokens:
// where the KV heads of a token lie side by side, the copy engine brings its keys, or its values, in one box. Warp h of a block has
// KV head h, warps behind them ask (attention_abreast_ask.cuh). So nothing is merged between warps, and a block looks for places, pages
// and the next item once for all KV heads.
//
// An item is a sequence and its rows of all KV heads; a block takes an equal share of the tiles of all items (attention_divide.cuh: one
// file). States of shares are handed on in memory (attention_abreast_merge.cuh).
//
// Function constants: those of attention_decode.cu, with caches of 16 bits, queries in one part, WEFT_M 1, masks that are intervals
// and WEFT_BOXES 3 (attention_boxes.cuh). WEFT_ABREAST: KV heads. WEFT_STAGES: tiles that lie in shared memory.
#include <stdint.h>

enum {
    HEADS = WEFT_ABREAST,
    HEAD = WEFT_HEAD_DIM,
    DIM = HEAD,
    ROWS = 16,
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    KEEPS_QUERIES = 1,
    SCORE_STEPS = DIM > 128 ? 2 : 8,
    TOKEN_BYTES = HEADS * HEAD * 2,
    TOKEN_APART = TOKEN_BYTES + 128,
    PLANE_BYTES = KEYS * TOKEN_APART,
    STAGE_BYTES = 2 * PLANE_BYTES, // keys, values
    RING_BYTES = WEFT_STAGES * STAGE_BYTES,
    ASKERS = 2, // warps that ask, for keys and for values
    SCRATCH_FLOATS = HEAD + 8,
    // Queries never lie in shared memory.
    ROW_BYTES = 0,
    PART_BYTES = 0,
};

static_assert(WEFT_PARTS == 1 && WEFT_BOXES == 3 && !WEFT_SCATTER && !WEFT_RING && DIM % 64 == 0,
              "queries that stay in registers, boxes of tokens, intervals of keys");

// Shared memory: tiles | a row of each KV head.
static __device__ __forceinline__ uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

#include "src/kernels/attention/attention_abreast_ask.cuh"
#include "src/kernels/attention/attention_abreast_merge.cuh"
#include "src/kernels/attention/attention_log2.cuh"
#include "src/kernels/attention/attention_tile.cuh"

DEVICE float *shared_factors()
{
    return NULL; // queries are of the cache's format
}

// For a row of the warp that is made again.
DEVICE float *shared_scratch(int32_t warp)
{
    return (float *)(shared_memory() + RING_BYTES) + warp * SCRATCH_FLOATS;
}

// The rows of the warp's KV head as tensor cores take them (mma.cuh); those that do not exist are zeros.
DEVICE void queries_take(const struct weft__attention_device_args *args, struct lengths lengths,
                         struct rows rows, int32_t lane, struct queries *kept)
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t row = 8 * half + lane / 4;
        const uint16_t *const from =
            (const uint16_t *)args->q +
            query_at(args, lengths, row_at(args, rows, min(row, rows.count - 1))) + 2 * (lane % 4);
#pragma unroll
        for (int32_t i = 0; i < DIM / 8; i++)
            kept->of[i / 2][0][i % 2 * 2 + half] =
                row < rows.count ? from[8 * i] | (uint32_t)from[8 * i + 1] << 16 : 0;
    }
}

// Zeros for the warp's values of a tile that nobody sees, those before row `begin` and from `end` on: a weight of 0 does not silence
// what lies there.
DEVICE void values_mend(uint8_t *values, int32_t begin, int32_t end, int32_t lane)
{
    enum { EACH = HEAD / 16 }; // of 32 bytes
    __syncwarp();
#pragma unroll 1
    for (int32_t i = lane; i < 2 * KEYS * EACH; i += WARP) {
        const int32_t row = i / 2 / EACH;
        if (row < begin || row >= end)
            store_16_shared(tile_piece(tile_row(shared_address(values), row, i % 2), i / 2 % EACH),
                            make_uint4(0, 0, 0, 0));
    }
    bulk_fence(); // before the place's next values
    __syncwarp();
}

// The warp has read a plane of a tile; `of_all` is made of a number of every load.
DEVICE void plane_leave(uint32_t empty, uint32_t of_all, int32_t lane)
{
    loads_end(of_all);
    __syncwarp();
    if (lane == 0)
        barrier_arrive(empty);
}

// Tiles `tile` to `end` of an item: scores, weights, sums.
DEVICE void tiles_walk(const struct weft__attention_device_args *args, const struct work *work,
                       struct stage *stage, int32_t tile, int32_t end, int32_t warp, int32_t lane,
                       struct state *state)
{
    const struct sequence *const seq = &work->at.seq;
    struct queries kept;
    lane = computed_here(lane); // what follows from it is not kept over the ends of items
    queries_take(args, seq->lengths, work->rows, lane, &kept);
    for (; tile < end; tile++) {
        const int32_t key0 = seq->begin + tile * KEYS;
        uint8_t *const keys = shared_memory() + stage->number * STAGE_BYTES + warp * HEAD * 2;
        float score[1][KEYS / 8][4] = {};
        barrier_wait(stage_full(stage, 0), stage->parity);
        tile_scores(0, &kept, keys, lane, score);
        plane_leave(stage_empty(stage, 0), float_bits(score[0][0][0]) ^ float_bits(score[0][1][0]),
                    lane);
        tile_log2(args, work, 0, key0, lane, 0, score[0]);
        tile_weights(state, score[0]);
        barrier_wait(stage_full(stage, 1), stage->parity);
        if (key0 < seq->first_key || key0 + KEYS > seq->end_key)
            values_mend(keys + PLANE_BYTES, seq->first_key - key0, seq->end_key - key0, lane);
        tile_values(keys, lane, score, state);
        uint32_t of_all = 0;
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t += 2)
            of_all ^= float_bits(state->acc[t][0]);
        plane_leave(stage_empty(stage, 1), of_all, lane);
        stage_next(stage);
    }
}

// Items of the block's share, the warp's KV head of them.
DEVICE void items_walk(const struct weft__attention_device_args *args, struct place at,
                       struct merge *merge, int32_t warp, int32_t lane)
{
    struct stage stage = {0, 0};
    struct work work;
    work.at = at;
    while (work.at.left > 0) {
        const int32_t first_tile = work.at.tile, count = place_tiles(&work.at);
        struct state state;
        work.rows = rows_of(args, &work.at), work.rows.kv_head = warp;
        work.by_all = keys_by_all(args, work.at.seq.lengths, row_at(args, work.rows, 0).token,
                                  row_at(args, work.rows, work.rows.count - 1).token);
        state_begin(&state);
        tiles_walk(args, &work, &stage, first_tile, first_tile + count, warp, lane, &state);
        item_end(args, &work, count, &state, shared_scratch(warp), warp, lane, merge);
        place_advance(args, &work.at, count);
    }
    __syncwarp();
    if (merge->rows.count > 0)
        parts_merge(args, merge, warp, lane);
}

extern "C" __global__ void __launch_bounds__((HEADS + ASKERS) * WARP, 1)
    weft_attention_abreast(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct merge merges[HEADS];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    let_next_start();
    if (!args.early)
        wait_for_previous();
    struct share share;
    const struct place at = place_begin(&args, lane, &share);
    if (at.left == 0) { // who waits for this launch waits for the one before it
        wait_for_previous();
        return;
    }
    if (threadIdx.x < 4 * WEFT_STAGES)
        barrier_init(shared_barriers() + 8 * threadIdx.x,
                     threadIdx.x < 2 * WEFT_STAGES ? 1 : HEADS);
    barrier_init_end();
    __syncthreads();
    if (warp >= HEADS) {
        tokens_ask(&args, at, warp - HEADS, lane);
        return;
    }
    if (args.early)
        wait_for_previous();
    if (lane == 0)
        merges[warp].share = share, merges[warp].rows.count = 0;
    items_walk(&args, at, &merges[warp], warp, lane);
}
