// SPDX-License-Identifier: MIT
// Attention of a few queries per sequence over paged keys: the query heads of a KV head and the queries
// of a sequence are the 16 rows of a tensor-core product, or of two (WEFT_M), keys and values are read once for all of them.
// attention_device.h says how the work is divided.
//
// Every warp streams tiles of WEFT_KEYS keys of its own through a ring in shared memory (attention_ring.cuh); warps
// meet only at the end of an item (attention_merge.cuh). Rows of shared memory are 16 bytes longer than
// head_dim, which makes ldmatrix free of bank conflicts for every head_dim.
//
// Function constants: WEFT_HEAD_DIM (a multiple of 8 up to 256, of 16 with one byte an element), WEFT_CACHE (the format
// of the cache, attention_widen.cuh), WEFT_SCALED (1: it may have scales), WEFT_KV_DTYPE (what tensor cores multiply,
// 2 f16, 3 bf16), WEFT_X_DTYPE and WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16; q also 4, 5 fp8) of q and out, WEFT_PARTS, WEFT_M (1, 2), WEFT_STAGES, WEFT_KEYS (16, 32), those of
// attention_mask.cuh, WEFT_CODES (1: attention_codes.cuh), WEFT_APPEND (attention_fresh.cuh) and WEFT_ROUNDED (results
// leave as int8, linear_device.h).
#include <stdint.h>

enum {
    HEAD = WEFT_HEAD_DIM,
    DIM = (HEAD + 15) / 16 * 16, // as tensor cores take it; the rest is zeros
    ROWS = 16 * WEFT_M,
    WARPS = 4,
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    CHUNKS = HEAD * (WEFT_CACHE > 3 ? 1 : 2) / 16, // of 16 bytes in a row
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * ROW_BYTES,
    RAW_ROW_BYTES = WEFT_CACHE > 3 ? HEAD : ROW_BYTES, // as the cache has it
    RAW_PLANE_BYTES = KEYS * RAW_ROW_BYTES,
    STAGE_BYTES =
        2 * RAW_PLANE_BYTES + (WEFT_SCALED ? 8 * KEYS : 0), // keys, values, scales of both
    WIDE_BYTES = WEFT_CACHE > 3 && !WEFT_CODES ? 2 * PLANE_BYTES : 0, // a warp's tile in bf16
    RING_BYTES = WARPS * (WEFT_STAGES * STAGE_BYTES + WIDE_BYTES),
    PART_BYTES = ROWS * ROW_BYTES,
    QUERY_BYTES = WEFT_PARTS * PART_BYTES + 4 * ROWS, // and a factor a row
    STATE_FLOATS = DIM + 4,                           // acc, largest, sum; padded
    KEEPS_QUERIES = WEFT_M == 1 && WEFT_PARTS == 1 && DIM <= 128 && !WEFT_CODES,
};

// Shared memory: rings | tiles in bf16 | queries | states [warp][row], of those of sixteen rows that exist.
static __device__ __forceinline__ uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

static __device__ __forceinline__ float *shared_state(int32_t warp, int32_t row, int32_t rows)
{
    return (float *)(shared_memory() + RING_BYTES + QUERY_BYTES) +
           (warp * rows + row) * STATE_FLOATS;
}

#include "src/kernels/attention/attention_merge.cuh"
#include "src/kernels/attention/attention_ring.cuh"
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
    float2 x[ROWS / WARPS][QUERY_PAIRS];
#if WEFT_APPEND
    const struct turns turns = turns_of(args, lengths.kv_len - 1, lane);
#pragma unroll
    for (int32_t i = 0; i < ROWS / WARPS; i++) {
        const struct row row = row_at(args, rows, min(i * WARPS + warp, rows.count - 1));
        struct head head = head_load((const float *)args->q + query_at(args, lengths, row), lane);
        head_turn(&head, &turns, lane);
#pragma unroll
        for (int32_t j = 0; j < QUERY_PAIRS; j++)
            x[i][j] = i * WARPS + warp < rows.count ? head.own[j] : make_float2(0, 0);
    }
#else
#pragma unroll
    for (int32_t i = 0; i < ROWS / WARPS; i++)
        query_fetch(args, lengths, rows, i * WARPS + warp, lane, x[i]);
#endif
#pragma unroll
    for (int32_t i = 0; i < ROWS / WARPS; i++)
        query_store(x[i], shared_memory() + RING_BYTES + (i * WARPS + warp) * ROW_BYTES, PART_BYTES,
                    lane, shared_factors() + i * WARPS + warp);
}

// --- a tile ---------------------------------------------------------------------------------------

// What the block works at, in shared memory.
struct work {
    struct place at;
    struct rows rows;   // of the item
    struct keys by_all; // keys that every row of it sees
    int32_t each, end;  // tiles of a share; where the block's ends in the list of all tiles
};

// Scores of rows `row0` to row0 + 15 in units of log2.
DEVICE void tile_log2(const struct weft__attention_device_args *args, const struct work *work,
                      int32_t row0, int32_t key0, int32_t lane, float score[KEYS / 8][4])
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
    if (key0 < work->by_all.begin || key0 + KEYS > work->by_all.end)
        // Only at the ends of what a row sees, so what it sees is found anew.
        scores_mask(args, work->rows, work->at.seq.lengths, row0, key0, lane, score);
}

// --- the block ------------------------------------------------------------------------------------

// Rows 16 m to 16 m + 15 of an item, if there are any.
DEVICE struct rows sixteen_of(struct rows rows, int32_t m)
{
    rows.first += 16 * m, rows.count = min(rows.count - 16 * m, 16);
    return rows;
}

// Finishes an item of `count` tiles: sixteen rows after the other, for their states share a place.
DEVICE void item_end(const struct weft__attention_device_args *args, const struct work *work,
                     int32_t count, const struct state state[SIXTEENS], int32_t warp, int32_t lane)
{
    const struct place *at = &work->at;
    const struct lengths lengths = at->seq.lengths;
    const struct holders by = holders_of(args, at, work->end, work->each);
    float *const slot =
        count == at->seq.tiles ? NULL : slot_at(args, slot_of(args, by, (int32_t)blockIdx.x));
#pragma unroll
    for (int32_t m = 0; m < SIXTEENS; m++) {
        const struct rows rows = sixteen_of(work->rows, m);
        if (rows.count <= 0)
            break;
        if (m > 0)
            __syncthreads();
        if (__syncthreads_or(state_store(&state[m], warp, lane, rows.count)))
            item_again(args, at, rows, count);
        item_finish(args, lengths, rows, warp, lane, slot, 16 * m);
    }
    // counted by the block in which the item begins: no other begins there and goes on
    if (slot && item_last(args->counters + by.first, (uint32_t)(by.last - by.first + 1)))
        item_merge(args, lengths, work->rows, warp, lane, by);
}

// The warp's tiles of an item, from `tile` on: scores, weights, sums.
DEVICE void tiles_walk(const struct weft__attention_device_args *args, const struct work *work,
                       struct ring *ring, int32_t tile, int32_t end, struct state state[SIXTEENS])
{
    const int32_t lane = ring->lane;
    const uint32_t queries = shared_address(shared_memory() + RING_BYTES);
    struct queries kept;
    queries_keep(queries, lane, &kept);
    for (; tile < end; tile += WARPS) {
        // the ring is full: what was asked for first lies where is asked for next
        const uint8_t *from =
            shared_memory() + (ring->warp * WEFT_STAGES + ring->slot) * STAGE_BYTES;
        const int32_t key0 = work->at.seq.begin + tile * KEYS;
        float score[SIXTEENS][KEYS / 8][4] = {};
        COPY_WAIT(WEFT_STAGES - 1);
        __syncwarp();
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
#pragma unroll
        for (int32_t m = 0; m < SIXTEENS; m++) {
            if (WEFT_SCALED)
                scores_scale(scales, lane, score[m]);
            tile_log2(args, work, 16 * m, key0, lane, score[m]);
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

extern "C" __global__ void __launch_bounds__(128, 2)
    weft_attention_decode(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct work work;
    __shared__ struct place asked[WARPS];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    let_next_start();
    if (!args.early)
        wait_for_previous();
    int32_t each;
    struct ring ring;
    struct place at = place_begin(&args, lane, &each);
    if (at.left == 0)
        return;
    if (threadIdx.x == 0)
        work.at = at, work.each = each, work.end = (int32_t)blockIdx.x * each + at.left;
    if (lane == 0)
        asked[warp] = at;
    __syncwarp();
    ring.at = &asked[warp], ring.slot = 0, ring.warp = warp, ring.lane = lane;
    ring_clear_padding(warp, lane);
    ring_item(&args, &ring);
    for (int32_t i = 0; i < WEFT_STAGES; i++) {
        if (args.early && !ring_is_old(&ring))
            wait_for_previous();
        ring_ask(&args, &ring);
    }
    if (args.early)
        wait_for_previous();
    __syncthreads();
    while (work.at.left > 0) {
        const int32_t first_tile = work.at.tile, count = place_tiles(&work.at);
        struct state state[SIXTEENS];
        if (threadIdx.x == 0) {
            work.rows = rows_of(&args, &work.at);
            work.by_all = keys_by_all(&args, work.at.seq.lengths, row_at(&args, work.rows, 0).token,
                                      row_at(&args, work.rows, work.rows.count - 1).token);
        }
        queries_load(&args, work.at.seq.lengths, rows_of(&args, &work.at), warp, lane);
#pragma unroll
        for (int32_t m = 0; m < SIXTEENS; m++)
            state_begin(&state[m]);
        __syncthreads();
        tiles_walk(&args, &work, &ring, first_tile + warp, first_tile + count, state);
        item_end(&args, &work, count, state, warp, lane);
        __syncthreads();
        if (threadIdx.x == 0)
            place_advance(&args, &work.at, count);
        __syncthreads();
    }
}
