// SPDX-License-Identifier: MIT
// Attention of many queries per sequence over paged keys on Hopper: as attention_prefill.cu, by warpgroups. A block of
// WEFT_GROUPS warpgroups that multiply, 64 rows of queries each, and one that keeps two rings filled, of tiles of KEYS keys
// and of tiles of KEYS values. Blocks stay: as many as there are SMs share all items, the longest of a sequence first.
//
// Scores are products of queries and keys from shared memory, results products of weights in registers and values from
// shared memory, and the exponentials of a tile run beside the values of the tile before:
//
//      tensor cores   S1 | V0 | S2 | V1 | S3 ...          the other warpgroup's in between: they take turns
//      the rest            exp S1    exp S2
//
// Shared memory, in matrices of 64 columns as wgmma.cuh draws them: queries of WEFT_QUERIES items | ring of keys | ring of values. What fills it
// is cp.async, which takes rows of any page; a thread that has seen its copies arrive puts a fence before what the
// tensor cores read, and its warp arrives at the barrier that they wait for.
//
// Function constants: WEFT_HEAD_DIM (64, 128, 256), WEFT_KV_DTYPE (2 f16, 3 bf16: of queries and caches, whose rows begin at
// multiples of 16 bytes), WEFT_Y_DTYPE, WEFT_GROUPS (1, 2), WEFT_KEYS (64, 128), WEFT_STAGES (of each ring), WEFT_QUERIES (1, 2), WEFT_PAGE, WEFT_BOX_ROWS (0: no boxes; a divisor of pages and tiles),
// WEFT_SOFTCAP, WEFT_ALIBI.
#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/wgmma.cuh"

// What attention_rows.cuh and what it includes want to know beside these.
#define WEFT_CACHE   WEFT_KV_DTYPE
#define WEFT_X_DTYPE WEFT_KV_DTYPE
#define WEFT_PARTS   1
#define WEFT_M       1
#define WEFT_SCALED  0
#define WEFT_CODES   0
#define WEFT_RING    0
#define WEFT_SCATTER 0
#define WEFT_SPARSE  0
#define WEFT_APPEND  0

enum {
    HEAD = WEFT_HEAD_DIM, // 64, 128, 256
    DIM = HEAD,
    GROUPS = WEFT_GROUPS,
    WARPS = 4 * GROUPS, // that multiply
    LOADERS = 4,        // warps that load
    WARP_ROWS = 16,
    ROWS = WARPS * WARP_ROWS,
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    QUERY_BYTES = ROWS * HEAD * 2,
    TILE_BYTES = KEYS * HEAD * 2,
    TILES_AT = WEFT_QUERIES * QUERY_BYTES,
    CHUNKS = HEAD / 8,         // of 16 bytes in a row
    TOGETHER = WARP / CHUNKS,  // rows that a warp asks for at once
    STEP = LOADERS * TOGETHER, // rows that all warps ask for at once
    LOADED = 1 + GROUPS,       // barrier of the warps that load
    SLICE_END = 2 + GROUPS,    // of those that multiply, at the end of a slice
    SLICES = HEAD <= 128,      // registers
    AHEAD = WEFT_QUERIES > 1,  // the next item's queries are there when an item ends
    // Of a thread: 168 are what 65536 give each of 384.
    LOAD_REGISTERS = HEAD > 128  ? 56
                     : HEAD > 64 ? 72
                                 : 88,
    WORK_REGISTERS = (168 * 3 - LOAD_REGISTERS) / 2,
};

#include "src/kernels/attention/attention_slices.cuh"

DEVICE uint32_t shared_base()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return shared_address(bytes);
}

DEVICE float *shared_factors()
{
    return 0; // queries are of the cache's format
}

#include "src/kernels/attention/attention_prefill_load.cuh"

// --- the warpgroups that multiply -----------------------------------------------------------------

// The most that a lane's weights of a row and tile are in all where none is more than 2^SLACK times that of the largest score known.
enum { WEIGHTS_MOST = 1 << (WEIGHT_OFFSET + SLACK) };

#define WGMMA_NAME_(KIND, TYPE, N) wgmma_##KIND##_##TYPE##_##N
#define WGMMA_NAME(KIND, TYPE, N)  WGMMA_NAME_(KIND, TYPE, N)
#if WEFT_KV_DTYPE == 2
#define WGMMA_SCORES WGMMA_NAME(shared, f16, WEFT_KEYS)
#define WGMMA_VALUES WGMMA_NAME(across, f16, WEFT_HEAD_DIM)
#else
#define WGMMA_SCORES WGMMA_NAME(shared, bf16, WEFT_KEYS)
#define WGMMA_VALUES WGMMA_NAME(across, bf16, WEFT_HEAD_DIM)
#endif

// What a warp that multiplies knows.
struct worker {
    struct shared *shared;
    int32_t group, warp, lane;
    int32_t round;
    struct stage keys, values;
    float
        unit; // unit_of(), in a register of the lane: an argument would be moved to a uniform one between two products
};

// Warpgroups take turns with the tensor cores: what one has asked for runs while the others make weights.
DEVICE void turn_take(const struct worker *own)
{
    if (GROUPS > 1)
        part_sync<2 * 128>(1 + own->group);
}

DEVICE void turn_give(const struct worker *own)
{
    if (GROUPS > 1)
        part_arrive<2 * 128>(1 + (own->group + 1) % GROUPS);
}

DEVICE uint32_t tile_at(int32_t stage)
{
    return shared_base() + TILES_AT + stage * TILE_BYTES;
}

// The next tile of a ring is there.
DEVICE void tile_wait(const struct worker *own, int32_t ring, const struct stage *at)
{
    barrier_wait(barrier_of(own->shared->barriers.tile_full, ring + at->index), at->parity);
}

// Nobody of the warp reads it any more.
DEVICE void tile_leave(const struct worker *own, int32_t ring, struct stage *at)
{
    barrier_arrive(barrier_of(own->shared->barriers.tile_empty, ring + at->index));
    stage_next(at);
}

// A matrix whose place is in a uniform register, so that what is further is an addition there: operands of products lie in such, and moves
// into them would keep one product from following the other.
DEVICE uint64_t matrix_uniform(uint64_t matrix)
{
    return matrix & 0xffffffff00000000u | warp_most((uint32_t)matrix);
}

// The products of queries and the next keys, on their way.
DEVICE void scores_ask(const struct worker *own, float score[WEFT_M][KEYS / 8][4])
{
    const uint64_t q = matrix_uniform(wgmma_matrix(shared_base() +
                                                   queries_place(own->round) * QUERY_BYTES +
                                                   own->group * 64 * HEAD * 2)),
                   k = matrix_uniform(wgmma_matrix(tile_at(own->keys.index)));
    wgmma_begin();
#pragma unroll
    for (int32_t i = 0; i < DIM / 16; i++)
        WGMMA_SCORES(&score[0][0][0], wgmma_further(q, i / 4 * 64 * 128 + i % 4 * 32),
                     wgmma_further(k, i / 4 * KEYS * 128 + i % 4 * 32), i > 0);
    wgmma_group_end();
}

// The products of weights and the next values, on their way.
DEVICE void values_ask(const struct worker *own, const uint32_t weight[KEYS / 16][WEFT_PARTS][4],
                       struct state *state)
{
    const uint64_t v =
        matrix_uniform(wgmma_matrix_across(tile_at(WEFT_STAGES + own->values.index), KEYS * 128));
    wgmma_begin();
#pragma unroll
    for (int32_t i = 0; i < KEYS / 16; i++)
        WGMMA_VALUES(&state->acc[0][0][0], weight[i][0], wgmma_further(v, i * 16 * 128));
    wgmma_group_end();
}

// Scores of a tile become those that weights are made of: what rows do not see is minus infinity.
DEVICE void scores_see(const struct weft__attention_device_args *args, const struct item *item,
                       const struct worker *own, const struct biased biased[WEFT_M][2],
                       int32_t key0, float score[WEFT_M][KEYS / 8][4])
{
    const struct keys by_all = item->by_all[own->warp];
    tile_prepare(args, biased, key0, own->warp, own->lane, score);
    if (key0 < by_all.begin || key0 + KEYS > by_all.end)
        tile_mask(args, item, key0, own->warp, own->lane, score);
}

DEVICE void weights_take(const float score[WEFT_M][KEYS / 8][4],
                         uint32_t weight[KEYS / 16][WEFT_PARTS][4])
{
#pragma unroll
    for (int32_t t = 0; t < KEYS / 16; t++)
        weights_narrow(score[0], 2 * t, weight[t]);
}

// Scores of a tile to weights, in place, measured against what is known before it: no largest score of the tile is looked for, so exponentials
// begin with the first score. False for a row whose weights may be too large for that, or that has seen nothing.
DEVICE bool weights_guess(const struct worker *own, const struct state *state,
                          float score[WEFT_M][KEYS / 8][4], float sum[2])
{
    const float unit = SCORES_PREPARED ? 1.0f
                       : HEAD > 128    ? own->shared->unit
                                       : own->unit; // registers
#pragma unroll
    for (int32_t half = 0; half < 2; half++)
        sum[half] = half_weights(score[0], half, unit, WEIGHT_OFFSET - state->largest[0][half]);
    return sum[0] <= WEIGHTS_MOST && sum[1] <= WEIGHTS_MOST; // not if NaN
}

// The scores of a tile once more, by the warp for its own rows: weights stand where they were.
DEVICE void scores_again(const struct worker *own, float score[WEFT_M][KEYS / 8][4])
{
    const int32_t lane = own->lane, row = own->warp % 4 * 16 + lane % 16;
    const int32_t key = lane % 8 + lane / 16 * 8;
    const uint32_t q = shared_base() + queries_place(own->round) * QUERY_BYTES +
                       own->group * 64 * HEAD * 2 + row * 128;
    const uint32_t k = tile_at(own->keys.index) + key * 128;
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            score[0][t][i] = 0;
#pragma unroll 1
    for (int32_t i = 0; i < DIM / 16; i++) {
        uint32_t a[4], b[4];
        load_matrix_4(a, q + i / 4 * 64 * 128 + (i % 4 * 2 + lane / 16 ^ row % 8) * 16);
        const uint32_t at = k + i / 4 * KEYS * 128 + (i % 4 * 2 + lane / 8 % 2 ^ key % 8) * 16;
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t += 2) {
            load_matrix_4(b, at + t * 8 * 128);
            mma_narrow<KEY_DTYPE>(score[0][t], a, b[0], b[1]);
            mma_narrow<KEY_DTYPE>(score[0][t + 1], a, b[2], b[3]);
        }
    }
}

// How much nearer a row is to the nearest of the item's keys than to the last one of its first tile, in units of log2: scores rise by
// that as keys come nearer, and what weights are measured against had to follow tile by tile.
DEVICE float bias_ahead(const struct item *item, const struct biased *biased, int32_t key0)
{
    const int32_t last = min(key0 + KEYS, item->end_key) - 1;
    const int32_t nearest = max(min(biased->own, item->end_key - 1), last);
    return biased->slope * (float)max(abs(biased->own - last) - abs(biased->own - nearest), 0);
}

// What weights of an item's first tile are measured against: the largest of its first and last keys.
DEVICE void largest_begin(const struct weft__attention_device_args *args, const struct item *item,
                          const struct worker *own, const struct biased biased[WEFT_M][2],
                          int32_t key0, struct state *state, const float score[WEFT_M][KEYS / 8][4])
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const float *const first = &score[0][0][2 * half], *const last =
                                                               &score[0][KEYS / 8 - 1][2 * half];
        const float most = fmaxf(fmaxf(first[0], first[1]), fmaxf(last[0], last[1]));
        state->largest[0][half] =
            warp_max(most, 4) * unit_of(args, own->warp * WARP_ROWS + own->lane / 4 + 8 * half);
        if (WEFT_ALIBI)
            state->largest[0][half] += bias_ahead(item, &biased[0][half], key0);
    }
}

// Scores of a tile to weights, in place, and those of an item's first tile; true if acc is to be multiplied by factor.
DEVICE bool weights_make(const struct weft__attention_device_args *args, const struct item *item,
                         const struct worker *own, const struct biased biased[WEFT_M][2],
                         int32_t key0, bool first, struct state *state,
                         float score[WEFT_M][KEYS / 8][4], float factor[WEFT_M][2])
{
    float sum[2];
    scores_see(args, item, own, biased, key0, score);
    if (first)
        largest_begin(args, item, own, biased, key0, state, score);
    if (__all_sync(0xffffffffu, weights_guess(own, state, score, sum))) {
        state->sum[0][0] += sum[0], state->sum[0][1] += sum[1];
        return false;
    }
    scores_again(own, score);
    scores_see(args, item, own, biased, key0, score);
    const bool follows = largest_follow(args, own->warp, own->lane, state, score, factor, 0);
    tile_weights(args, own->warp, own->lane, state, score);
    return follows;
}

// The scores of the next tile beside the values of the one before it, whose products `weight` waits for.
DEVICE void tile_work(const struct weft__attention_device_args *args, const struct item *item,
                      struct worker *own, int32_t key0, struct state *state,
                      uint32_t weight[KEYS / 16][WEFT_PARTS][4])
{
    float score[WEFT_M][KEYS / 8][4], factor[WEFT_M][2];
    struct biased biased[WEFT_M][2];
    turn_take(own);
    scores_ask(own, score);
    tile_wait(own, WEFT_STAGES, &own->values);
    values_ask(own, weight, state);
    turn_give(own);
    biased_rows(args, item, own->warp, own->lane, biased);
    WGMMA_WAIT(1);
    const bool follows = weights_make(args, item, own, biased, key0, false, state, score, factor);
    tile_leave(own, 0, &own->keys);
    // A loop between the weights and the wait for the values: the assembler would wait first.
    if (key0 + KEYS < item->end_key)
        tile_wait(own, 0, &own->keys);
    WGMMA_WAIT(0);
    tile_leave(own, WEFT_STAGES, &own->values);
    if (follows)
        acc_follow(state, factor);
    weights_take(score, weight);
}

// The item of the worker's round, once its queries are there.
DEVICE const struct item *item_wait(const struct worker *own)
{
    barrier_wait(barrier_of(own->shared->barriers.queries_full, queries_place(own->round)),
                 queries_parity(own->round));
    return &own->shared->items[own->round % ITEMS];
}

// The products of queries and an item's first keys, on their way.
DEVICE void first_ask(const struct worker *own, float score[WEFT_M][KEYS / 8][4])
{
    tile_wait(own, 0, &own->keys);
    turn_take(own);
    scores_ask(own, score);
    turn_give(own);
}

DEVICE void rows_close(const struct weft__attention_device_args *args, const struct item *item,
                       const struct worker *own, const struct state *state, struct closed row[2])
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++)
        row[half] = row_close(args, item, state, own->warp, own->lane, 0, half);
}

// The keys of an item, of whose first the scores are there; `row`: the ends of the lane's rows, unless the item is one of several slices.
DEVICE void item_work(const struct weft__attention_device_args *args, const struct item *item,
                      struct worker *own, struct state *state, float score[WEFT_M][KEYS / 8][4],
                      struct closed row[2])
{
    const int32_t begin = item->begin, end = item->end_key;
    uint32_t weight[KEYS / 16][WEFT_PARTS][4];
    float factor[WEFT_M][2]; // of sums and results so far, which are 0
    struct biased biased[WEFT_M][2];
    state_begin(state);
    biased_rows(args, item, own->warp, own->lane, biased);
    weights_make(args, item, own, biased, begin, true, state, score, factor);
    tile_leave(own, 0, &own->keys);
    weights_take(score, weight);
    if (begin + KEYS < end)
        tile_wait(own, 0, &own->keys);
    for (int32_t key0 = begin + KEYS; key0 < end; key0 += KEYS)
        tile_work(args, item, own, key0, state, weight);
    barrier_arrive(barrier_of(own->shared->barriers.queries_empty, queries_place(own->round)));
    tile_wait(own, WEFT_STAGES, &own->values);
    values_ask(own, weight, state);
    if (AHEAD && item->slices == 1)
        rows_close(args, item, own, state, row);
    WGMMA_WAIT(0);
    tile_leave(own, WEFT_STAGES, &own->values);
}

DEVICE void rows_store(const struct weft__attention_device_args *args, const struct state *state,
                       const struct closed row[2], bool again, int32_t lane)
{
    const bool wide = rows_are_wide(args);
#pragma unroll
    for (int32_t half = 0; half < 2; half++)
        row_store(args, row[half].at, row[half].exists && !again, wide, lane, state->acc[0], half,
                  row[half].by);
}

// Items one after the other.
DEVICE void items_work(const struct weft__attention_device_args *args, struct worker *own)
{
    for (;; own->round++) {
        const struct item *item = item_wait(own);
        if (item->rows.count == 0)
            return;
        float score[WEFT_M][KEYS / 8][4];
        struct state state;
        first_ask(own, score);
        WGMMA_WAIT(0);
        item_work(args, item, own, &state, score, NULL);
        rows_finish(args, item, &state, own->warp, own->lane);
    }
}

// The first scores of an item beside the results of the one before it.
DEVICE void items_work_ahead(const struct weft__attention_device_args *args, struct worker *own)
{
    struct state state;
    float score[WEFT_M][KEYS / 8][4];
    const struct item *item = item_wait(own);
    if (item->rows.count == 0)
        return;
    first_ask(own, score);
    WGMMA_WAIT(0);
    for (;;) {
        struct closed row[2];
        item_work(args, item, own, &state, score, row);
        if (SLICES && item->slices > 1) { // the only one of the block
            slice_finish(args, item, &state);
            return;
        }
        const bool again = __any_sync(
            0xffffffffu,
            row_nothing(&row[0], state.acc[0], 0) + row_nothing(&row[1], state.acc[0], 1) != 0.0f);
        if (again)
            rows_again(args, item);
        own->round++;
        item = item_wait(own);
        if (item->rows.count ==
            0) { // text of its own: whether products are on their way is known when it is compiled
            rows_store(args, &state, row, again, own->lane);
            return;
        }
        first_ask(own, score);
        rows_store(args, &state, row, again, own->lane);
        WGMMA_WAIT(0);
    }
}

DEVICE void work(const struct weft__attention_device_args *args, struct shared *shared)
{
    struct worker own = {shared,
                         (int32_t)threadIdx.x / 128,
                         (int32_t)threadIdx.x / WARP,
                         (int32_t)threadIdx.x % WARP,
                         0,
                         {0, 0},
                         {0, 0},
                         shared->unit};
    if (own.group == GROUPS - 1)
        turn_give(&own); // the first begins
    if (AHEAD)
        items_work_ahead(args, &own);
    else
        items_work(args, &own);
}

extern "C" __global__ void __launch_bounds__((WARPS + LOADERS) * WARP, 1)
    weft_attention_prefill_wgmma(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct shared shared;
    if (threadIdx.x == 0) {
        barriers_begin(&shared.barriers);
        shared.unit = fabsf(args.scale) * LOG2_E;
    }
    let_next_start();
    __syncthreads();
    wait_for_previous();
    if (threadIdx.x / WARP == WARPS + FINDER) // while it has registers
        item_first(&args, &shared, (int32_t)threadIdx.x % WARP);
    if (threadIdx.x >= WARPS * WARP) {
        registers_give<LOAD_REGISTERS>();
        load(&args, &shared);
    } else {
        registers_take<WORK_REGISTERS>();
        work(&args, &shared);
    }
}
