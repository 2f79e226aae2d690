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
// Shared memory, in matrices of 64 columns as wgmma.cuh draws them: queries | ring of keys | ring of values. What fills it
// is cp.async, which takes rows of any page; a thread that has seen its copies arrive puts a fence before what the
// tensor cores read, and its warp arrives at the barrier that they wait for.
//
// Function constants: WEFT_HEAD_DIM (64, 128, 256), WEFT_KV_DTYPE (2 f16, 3 bf16: of queries and caches, whose rows begin at
// multiples of 16 bytes), WEFT_Y_DTYPE, WEFT_GROUPS (1, 2), WEFT_KEYS (64, 128), WEFT_STAGES (of each ring), WEFT_PAGE,
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
    TILES_AT = QUERY_BYTES,
    CHUNKS = HEAD / 8,         // of 16 bytes in a row
    TOGETHER = WARP / CHUNKS,  // rows that a warp asks for at once
    STEP = LOADERS * TOGETHER, // rows that all warps ask for at once
    LOADED = 1 + GROUPS,       // barrier of the warps that load
    SLICE_END = 2 + GROUPS,    // of those that multiply, at the end of a slice
    SLICES = HEAD <= 128,      // registers
    // Of a thread: 168 are what 65536 give each of 384.
    LOAD_REGISTERS = HEAD > 128 ? 56 : 72,
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

// --- barriers and stages --------------------------------------------------------------------------

struct barriers {
    uint64_t queries_full, queries_empty;
    uint64_t tile_full[2 * WEFT_STAGES], tile_empty[2 * WEFT_STAGES]; // keys, then values
};

// What the block's threads share beside the tiles. An item is found while the one before it is worked at, whose results
// the one before that may still be leaving.
struct shared {
    struct barriers barriers;
    struct item items[3];
    int32_t slices; // of an item
};

// A stage of a ring, and the parity of the phase that it is waited for in.
struct stage {
    int32_t index;
    uint32_t parity;
};

DEVICE void stage_next(struct stage *at)
{
    if (++at->index == WEFT_STAGES)
        at->index = 0, at->parity ^= 1;
}

DEVICE uint32_t barrier_of(const uint64_t *first, int32_t index)
{
    return shared_address(first) + 8 * index;
}

DEVICE void barriers_begin(struct barriers *b)
{
    barrier_init(barrier_of(&b->queries_full, 0), LOADERS);
    barrier_init(barrier_of(&b->queries_empty, 0), WARPS);
    for (int32_t i = 0; i < 2 * WEFT_STAGES; i++) {
        barrier_init(barrier_of(b->tile_full, i), LOADERS);
        barrier_init(barrier_of(b->tile_empty, i), WARPS);
    }
    barrier_init_end();
}

// --- the warps that load --------------------------------------------------------------------------

// What a warp that loads knows. Copies that have been asked for last are still to be announced: at `pending`.
struct loader {
    struct shared *shared;
    int32_t warp, lane;
    uint32_t pending; // 0: none
    struct stage keys, values;
};

// A lane's row of those that its warp asks for, of `count` rows: below count for lanes below count / LOADERS.
DEVICE int32_t lane_row(const struct loader *own)
{
    return own->lane / TOGETHER * STEP + own->warp * TOGETHER + own->lane % TOGETHER;
}

// What has been asked for is there, and whoever waits may read it.
DEVICE void loader_announce(struct loader *own)
{
    bulk_fence();
    __syncwarp();
    if (own->lane == 0)
        barrier_arrive(own->pending);
    own->pending = 0;
}

DEVICE void loader_finish(struct loader *own)
{
    COPY_WAIT(0);
    if (own->pending)
        loader_announce(own);
}

// The copies since the last call belong to what `barrier` guards; those before them are announced.
DEVICE void loader_asked(struct loader *own, uint32_t barrier)
{
    copy_group_end();
    COPY_WAIT(1);
    if (own->pending)
        loader_announce(own);
    own->pending = barrier;
}

// Until nobody reads a stage any more. Nobody waits for what is not announced meanwhile.
DEVICE void loader_wait(struct loader *own, uint32_t barrier, uint32_t parity)
{
    if (__all_sync(0xffffffffu, barrier_ended(barrier, parity)))
        return;
    loader_finish(own);
    barrier_wait(barrier, parity);
}

// A lane's sixteen bytes of every row that its warp asks for. seen: the lanes whose rows are, the others are zeros; ALL: all.
template <int COUNT, bool ALL>
DEVICE void rows_copy(const struct loader *own, uint32_t to, const uint8_t *row, uint32_t seen)
{
    const uint32_t lane = (uint32_t)own->lane, chunk = lane % CHUNKS;
    const uint32_t first = (uint32_t)own->warp * TOGETHER + lane / CHUNKS;
    to += chunk / 8 * COUNT * 128 + first * 128 + (chunk ^ first) % 8 * 16;
#pragma unroll(4)
    for (uint32_t i = 0; i < COUNT / STEP; i++) {
        const uint32_t from = i * TOGETHER + lane / CHUNKS;
        const uint8_t *found =
            (const uint8_t *)__shfl_sync(0xffffffffu, (unsigned long long)row, (int32_t)from) +
            chunk * 16;
        // rows that are four further have the other half of eight places
        const uint32_t place = (STEP % 8 && i % 2 ? to ^ 64 : to) + i * STEP * 128;
        if (ALL)
            copy_16_async(place, found);
        else
            copy_16_async_or_zero(place, found, seen >> from & 1 ? 16 : 0);
    }
}

// Asks for COUNT rows; `row`: where the row lane_row() begins that a lane knows, zeros if it is not seen.
template <int COUNT>
DEVICE void rows_ask(const struct loader *own, uint32_t to, const uint8_t *row, bool seen)
{
    const uint32_t all = __ballot_sync(0xffffffffu, seen || own->lane >= COUNT / LOADERS);
    if (all == 0xffffffffu)
        rows_copy<COUNT, true>(own, to, row, all);
    else
        rows_copy<COUNT, false>(own, to, row, all);
}

// The queries of an item; rows that do not exist are zeros.
DEVICE void queries_ask(const struct weft__attention_device_args *args, const struct loader *own,
                        const struct item *item)
{
    const struct rows rows = item->rows;
    const int32_t row = lane_row(own);
#pragma unroll 1
    for (int32_t group = 0; group < GROUPS; group++) {
        const bool exists = row < 64 && 64 * group + row < rows.count;
        const struct row at = row_at(args, rows, exists ? 64 * group + row : 0);
        rows_ask<64>(own, shared_base() + group * 64 * HEAD * 2,
                     (const uint8_t *)args->q + BYTES * query_at(args, item->seq.lengths, at),
                     exists);
    }
}

// The page of the lane's row of a tile.
DEVICE int32_t page_of(const struct loader *own, const struct item *item, int32_t key0)
{
    const int32_t key = key0 + lane_row(own);
    return item_sees(item, key) && own->lane < KEYS / LOADERS ? item->pages[key / PAGE] : 0;
}

// Asks for the keys or the values of a tile.
DEVICE void tile_ask(const struct loader *own, const struct item *item,
                     const struct weft__attention_device_plane *plane, int32_t page, int32_t key0,
                     uint32_t to)
{
    const int32_t key = key0 + lane_row(own);
    const bool seen = item_sees(item, key) && own->lane < KEYS / LOADERS;
    const uint8_t *row = (const uint8_t *)plane->data;
    if (seen)
        row += BYTES * (page * plane->page_stride + key % PAGE * plane->token_stride);
    rows_ask<KEYS>(own, to, row, seen);
}

// The block's item of round `round`: there and back through the blocks, so that none has the longest of every round.
DEVICE int32_t item_index(int32_t round)
{
    const int32_t block = (int32_t)blockIdx.x, blocks = (int32_t)gridDim.x;
    return round * blocks + (round % 2 ? blocks - 1 - block : block);
}

// Finds the item of a round and leaves it where all warps find it: by one warp. rows.count 0: there is none.
DEVICE void item_find(const struct weft__attention_device_args *args, int32_t lane, int32_t round,
                      int32_t slices, struct item *item)
{
    const int32_t index = item_index(round);
    const struct unit unit = {slices > 1 ? index / slices : index, slices > 1 ? index % slices : 0,
                              slices};
    struct place at;
    if (place_at(args, lane, unit.item, &at))
        item_set(args, &at, unit, lane, item);
    else if (lane == 0)
        item->rows.count = 0;
}

// The item of the next round; what has been asked for until then is announced first.
DEVICE void item_next(const struct weft__attention_device_args *args, struct loader *own,
                      int32_t round)
{
    if (own->warp > 0)
        return;
    loader_finish(own);
    struct item *item = &own->shared->items[round % 3];
    if (own->shared->slices > 1) // as many as there are blocks at most
        item->rows.count = 0;
    else
        item_find(args, own->lane, round, 1, item);
}

// The keys and values of an item in the order in which they are wanted, values a tile behind keys: K0 K1 V0 K2 V1 ... V.
// Once there is enough to multiply, one warp looks for the item of the next round.
DEVICE void item_load(const struct weft__attention_device_args *args, struct loader *own,
                      const struct item *item, int32_t round)
{
    struct barriers *b = &own->shared->barriers;
    const int32_t begin = item->begin, last = 2 * ((item->end_key - begin + KEYS - 1) / KEYS) - 1;
    int32_t page = page_of(own, item, begin), before = page, next = page;
#pragma unroll 1
    for (int32_t i = 0; i <= last; i++) {
        const bool is_keys = i == 0 || (i % 2 && i < last);
        const int32_t tile = is_keys ? (i + 1) / 2 : i == last ? i / 2 : i / 2 - 1;
        const struct stage at = is_keys ? own->keys : own->values;
        const int32_t ring = is_keys ? 0 : WEFT_STAGES;
        const struct weft__attention_device_plane *plane = &item->planes[!is_keys];
        if (is_keys) {
            before = page, page = next;
            next = page_of(own, item, begin + (tile + 1) * KEYS);
        }
        loader_wait(own, barrier_of(b->tile_empty, ring + at.index), at.parity);
        tile_ask(own, item, plane, is_keys || i == last ? page : before, begin + tile * KEYS,
                 shared_base() + TILES_AT + (ring + at.index) * TILE_BYTES);
        loader_asked(own, barrier_of(b->tile_full, ring + at.index));
        if (is_keys)
            stage_next(&own->keys);
        else
            stage_next(&own->values);
        if (HEAD <= 128 && i == min(last, 2))
            item_next(args, own, round + 1);
    }
    if (HEAD > 128 || last < 0) // registers
        item_next(args, own, round + 1);
}

// The block's first item, or slice of one: by a warp.
DEVICE void item_first(const struct weft__attention_device_args *args, struct shared *shared,
                       int32_t lane)
{
    const int32_t slices = SLICES ? slices_of_items(args, lane) : 1;
    if (lane == 0)
        shared->slices = slices;
    item_find(args, lane, 0, slices, &shared->items[0]);
}

DEVICE void load(const struct weft__attention_device_args *args, struct shared *shared)
{
    struct loader own = {
        shared, (int32_t)threadIdx.x / WARP - WARPS, (int32_t)threadIdx.x % WARP, 0, {0, 1},
        {0, 1}};
    struct barriers *b = &shared->barriers;
#pragma unroll 1
    for (int32_t round = 0;; round++) {
        const struct item *item = &shared->items[round % 3];
        loader_wait(&own, barrier_of(&b->queries_empty, 0), (round + 1) % 2);
        part_sync<LOADERS * WARP>(LOADED);
        const bool more = item->rows.count > 0;
        if (more)
            queries_ask(args, &own, item);
        loader_asked(&own, barrier_of(&b->queries_full, 0));
        if (!more)
            break;
        item_load(args, &own, item, round);
    }
    loader_finish(&own);
}

// --- the warpgroups that multiply -----------------------------------------------------------------

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
    struct stage keys, values;
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
    if (own->lane == 0)
        barrier_arrive(barrier_of(own->shared->barriers.tile_empty, ring + at->index));
    stage_next(at);
}

// The products of queries and the next keys, on their way.
DEVICE void scores_ask(const struct worker *own, float score[WEFT_M][KEYS / 8][4])
{
    const uint32_t q = shared_base() + own->group * 64 * HEAD * 2, k = tile_at(own->keys.index);
    wgmma_begin();
#pragma unroll
    for (int32_t i = 0; i < DIM / 16; i++)
        WGMMA_SCORES(&score[0][0][0], wgmma_matrix(q + i / 4 * 64 * 128 + i % 4 * 32),
                     wgmma_matrix(k + i / 4 * KEYS * 128 + i % 4 * 32), i > 0);
    wgmma_group_end();
}

// The products of weights and the next values, on their way.
DEVICE void values_ask(const struct worker *own, const uint32_t weight[KEYS / 16][WEFT_PARTS][4],
                       struct state *state)
{
    const uint32_t v = tile_at(WEFT_STAGES + own->values.index);
    wgmma_begin();
#pragma unroll
    for (int32_t i = 0; i < KEYS / 16; i++)
        WGMMA_VALUES(&state->acc[0][0][0], weight[i][0],
                     wgmma_matrix_across(v + i * 16 * 128, KEYS * 128));
    wgmma_group_end();
}

// Scores of a tile to weights, in place; true if acc is to be multiplied by factor.
DEVICE bool weights_make(const struct weft__attention_device_args *args, const struct item *item,
                         const struct worker *own, int32_t key0, struct state *state,
                         float score[WEFT_M][KEYS / 8][4], float factor[WEFT_M][2])
{
    tile_prepare(args, item, key0, own->warp, own->lane, score);
    if (key0 < item->by_all[own->warp].begin || key0 + KEYS > item->by_all[own->warp].end)
        tile_mask(args, item, key0, own->warp, own->lane, score);
    const bool follows = largest_follow(args, own->warp, own->lane, state, score, factor);
    tile_weights(args, own->warp, own->lane, state, score);
    return follows;
}

DEVICE void weights_take(const float score[WEFT_M][KEYS / 8][4],
                         uint32_t weight[KEYS / 16][WEFT_PARTS][4])
{
#pragma unroll
    for (int32_t t = 0; t < KEYS / 16; t++)
        weights_narrow(score[0], 2 * t, weight[t]);
}

// The scores of the next tile beside the values of the one before it, whose products `weight` waits for.
DEVICE void tile_work(const struct weft__attention_device_args *args, const struct item *item,
                      struct worker *own, int32_t key0, struct state *state,
                      uint32_t weight[KEYS / 16][WEFT_PARTS][4])
{
    float score[WEFT_M][KEYS / 8][4], factor[WEFT_M][2];
    turn_take(own);
    scores_ask(own, score);
    tile_wait(own, WEFT_STAGES, &own->values);
    values_ask(own, weight, state);
    turn_give(own);
    WGMMA_WAIT(1);
    tile_leave(own, 0, &own->keys);
    const bool follows = weights_make(args, item, own, key0, state, score, factor);
    // A loop between the weights and the wait for the values: the assembler would wait first.
    if (key0 + KEYS < item->end_key)
        tile_wait(own, 0, &own->keys);
    WGMMA_WAIT(0);
    tile_leave(own, WEFT_STAGES, &own->values);
    if (follows)
        acc_follow(state, factor);
    weights_take(score, weight);
}

DEVICE void item_work(const struct weft__attention_device_args *args, const struct item *item,
                      struct worker *own, struct state *state)
{
    const int32_t begin = item->begin, end = item->end_key;
    uint32_t weight[KEYS / 16][WEFT_PARTS][4];
    state_begin(state);
    if (begin < end) {
        float score[WEFT_M][KEYS / 8][4], factor[WEFT_M][2];
        tile_wait(own, 0, &own->keys);
        turn_take(own);
        scores_ask(own, score);
        turn_give(own);
        WGMMA_WAIT(0);
        tile_leave(own, 0, &own->keys);
        weights_make(args, item, own, begin, state, score, factor);
        weights_take(score, weight);
        if (begin + KEYS < end)
            tile_wait(own, 0, &own->keys);
    }
    for (int32_t key0 = begin + KEYS; key0 < end; key0 += KEYS)
        tile_work(args, item, own, key0, state, weight);
    if (own->lane == 0)
        barrier_arrive(barrier_of(&own->shared->barriers.queries_empty, 0));
    if (begin < end) {
        tile_wait(own, WEFT_STAGES, &own->values);
        values_ask(own, weight, state);
        WGMMA_WAIT(0);
        tile_leave(own, WEFT_STAGES, &own->values);
    }
}

DEVICE void work(const struct weft__attention_device_args *args, struct shared *shared)
{
    struct worker own = {shared,
                         (int32_t)threadIdx.x / 128,
                         (int32_t)threadIdx.x / WARP,
                         (int32_t)threadIdx.x % WARP,
                         {0, 0},
                         {0, 0}};
    struct state state;
    if (own.group == GROUPS - 1)
        turn_give(&own); // the first begins
    for (int32_t round = 0;; round++) {
        const struct item *item = &shared->items[round % 3];
        barrier_wait(barrier_of(&shared->barriers.queries_full, 0), round % 2);
        if (item->rows.count == 0)
            return;
        item_work(args, item, &own, &state);
        if (SLICES && item->slices > 1) { // the only one of the block
            slice_finish(args, &shared->items[0], &state);
            return;
        }
        rows_finish(args, item, &state, own.warp, own.lane);
    }
}

extern "C" __global__ void __launch_bounds__((WARPS + LOADERS) * WARP, 1)
    weft_attention_prefill_wgmma(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct shared shared;
    if (threadIdx.x == 0)
        barriers_begin(&shared.barriers);
    let_next_start();
    __syncthreads();
    wait_for_previous();
    if (threadIdx.x / WARP == WARPS) // while it has registers
        item_first(&args, &shared, (int32_t)threadIdx.x % WARP);
    if (threadIdx.x >= WARPS * WARP) {
        registers_give<LOAD_REGISTERS>();
        load(&args, &shared);
    } else {
        registers_take<WORK_REGISTERS>();
        work(&args, &shared);
    }
}
