// SPDX-License-Identifier: MIT
// Attention of many queries per sequence over paged keys: a block takes WEFT_M x 64 rows of queries (the queries of
// a sequence times the query heads of a KV head) and walks the keys that they see, WEFT_KEYS at a time. Scores,
// weights and results stay in registers; keys and values come through shared memory, the next tile while this
// one is worked at, with one barrier a tile.
//
// Blocks take items (attention_divide.cuh, splits 1) with the longest row tiles of a causal sequence first, or slices of the keys
// of few items (attention_slices.cuh). Every row's sums of them are made by one warp in the order of the keys, and slices are merged in
// theirs: two runs agree to the bit.
//
// Rows of shared memory are 16 bytes longer than head_dim, which makes ldmatrix free of bank conflicts.
//
// Function constants: as attention_decode.cu, and WEFT_M (16 rows of a warp, 1 or 2), WEFT_KEYS (16, 32, 64).
#include <stdint.h>

#define WEFT_STAGES 2
enum {
    HEAD = WEFT_HEAD_DIM,
    DIM = (HEAD + 15) / 16 * 16, // as tensor cores take it; the rest is zeros
    WARPS = 4,
    WARP_ROWS = WEFT_M * 16,
    ROWS = WARPS * WARP_ROWS,
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    CHUNKS = HEAD * (WEFT_CACHE > 3 ? 1 : 2) / 16, // of 16 bytes in a row
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * ROW_BYTES,
    RAW_ROW_BYTES = WEFT_CACHE > 3 ? HEAD : ROW_BYTES, // as the cache has it
    RAW_PLANE_BYTES = KEYS * RAW_ROW_BYTES,
    STAGE_BYTES =
        2 * RAW_PLANE_BYTES + (WEFT_SCALED ? 8 * KEYS : 0), // keys, values, scales of both
    WIDE_BYTES = WEFT_CACHE > 3 ? 2 * PLANE_BYTES : 0,      // a tile in bf16
    RING_BYTES = WEFT_STAGES * STAGE_BYTES + WIDE_BYTES,
    PART_BYTES = ROWS * ROW_BYTES,
    COPIED = 2 * KEYS / WARPS, // rows of keys or values that a warp brings
    SLICE_END = 1,             // a barrier
};

#include "src/kernels/attention/attention_slices.cuh"
#include "src/kernels/attention/attention_widen.cuh"

// Shared memory: ring | queries in parts | factors of the rows.
DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

DEVICE uint8_t *shared_queries(int32_t row)
{
    return shared_memory() + RING_BYTES + row * ROW_BYTES;
}

DEVICE float *shared_factors()
{
    return (float *)(shared_memory() + RING_BYTES + WEFT_PARTS * PART_BYTES);
}

// --- keys and values to shared memory -------------------------------------------------------------

// A lane's row of those that its warp brings: of keys the first KEYS, of values the others.
DEVICE int32_t own_row()
{
    return (int32_t)threadIdx.x / WARP * COPIED + (int32_t)threadIdx.x % COPIED;
}

// The page of the lane's row of a tile.
DEVICE int32_t own_page(const struct weft__attention_device_args *args, const struct item *item,
                        int32_t key0)
{
    int32_t key = key0 + own_row() % KEYS;
    return item_sees(item, key) ? item->pages[place_of(args, key) / PAGE] : 0;
}

// Asks for a tile; the page of the lane's row was asked for a tile ahead.
DEVICE void tile_ask(const struct weft__attention_device_args *args, const struct item *item,
                     int32_t page, int32_t key0, uint8_t *slot)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    const struct weft__attention_device_plane *plane = &item->planes[own_row() >= KEYS];
    const int32_t key = key0 + own_row() % KEYS;
    const bool seen = item_sees(item, key);
    const uint8_t *row = (const uint8_t *)plane->data;
    if (seen)
        row +=
            BYTES * (page * plane->page_stride + place_of(args, key) % PAGE * plane->token_stride);
    if (WEFT_SCALED && lane < COPIED)
        scale_ask(own_row() >= KEYS ? &args->v_scales : &args->k_scales, item->seq.lengths.seq,
                  page, item->rows.kv_head, place_of(args, key) % PAGE, seen,
                  (float *)(slot + 2 * RAW_PLANE_BYTES) + own_row());
    const uint32_t all = __ballot_sync(0xffffffffu, seen);
    const uint32_t to = shared_address(slot) + warp * COPIED * RAW_ROW_BYTES;
#pragma unroll 4
    for (int32_t j = 0; j < (COPIED * CHUNKS + WARP - 1) / WARP; j++) {
        int32_t piece = j * WARP + lane, at = piece / CHUNKS, chunk = piece % CHUNKS;
        const uint8_t *from =
            (const uint8_t *)__shfl_sync(0xffffffffu, (unsigned long long)row, at % COPIED);
        if (COPIED * CHUNKS % WARP == 0 || at < COPIED)
            copy_chunk(to + at * RAW_ROW_BYTES + chunk * 16, from + chunk * 16,
                       all >> at % COPIED & 1, args->aligned);
    }
    copy_group_end();
}

// The columns from HEAD to DIM of the ring.
DEVICE void ring_clear_padding()
{
    for (int32_t row = (int32_t)threadIdx.x; DIM != HEAD && row < WEFT_STAGES * 2 * KEYS;
         row += WARPS * WARP)
        *(uint4 *)(shared_memory() + row * ROW_BYTES + CHUNKS * 16) = make_uint4(0, 0, 0, 0);
}

// --- queries --------------------------------------------------------------------------------------

// A warp brings its own rows, eight on their way at a time.
DEVICE void queries_load(const struct weft__attention_device_args *args, const struct item *item,
                         int32_t warp, int32_t lane)
{
    enum { TOGETHER = DIM > 128 ? 4 : 8 };
    for (int32_t r0 = warp * WARP_ROWS; r0 < (warp + 1) * WARP_ROWS; r0 += TOGETHER) {
        float2 x[TOGETHER][QUERY_PAIRS];
#pragma unroll
        for (int32_t i = 0; i < TOGETHER; i++)
            query_fetch(args, item->seq.lengths, item->rows, r0 + i,
                        query_from(args, item->seq.lengths, item->rows, r0 + i), lane, x[i]);
#pragma unroll
        for (int32_t i = 0; i < TOGETHER; i++)
            query_store(x[i], shared_queries(r0 + i), PART_BYTES, lane, shared_factors() + r0 + i);
    }
}

// --- a tile ---------------------------------------------------------------------------------------

// score[m][t]: rows 16 m.. by keys 8 t.. of the tile.
DEVICE void tile_scores(const uint8_t *slot, int32_t warp, int32_t lane,
                        float score[WEFT_M][KEYS / 8][4])
{
    uint32_t q_row = shared_address(shared_queries(warp * WARP_ROWS + lane % 16)) + lane / 16 * 16;
    uint32_t k_row =
        shared_address(slot) + (lane / 16 * 8 + lane % 8) * ROW_BYTES + lane / 8 % 2 * 16;
    float low[WEFT_PARTS > 1 ? WEFT_M : 1][KEYS / 8][4] = {}; // of all parts but the first
#pragma unroll(DIM > 128 ? (WEFT_PARTS > 1 ? 1 : 4) : 8)
    for (int32_t i = 0; i < DIM; i += 16) {
        uint32_t q[WEFT_M][WEFT_PARTS][4];
#pragma unroll
        for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
            for (int32_t part = 0; part < WEFT_PARTS; part++)
                load_matrix_4(q[m][part], q_row + part * PART_BYTES + m * 16 * ROW_BYTES + i * 2);
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t += 2) {
            uint32_t k[4];
            load_matrix_4(k, k_row + t * 8 * ROW_BYTES + i * 2);
#pragma unroll
            for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
                for (int32_t part = 0; part < WEFT_PARTS; part++) {
                    mma_score(part ? low[m][t] : score[m][t], part, q[m][part], k[0], k[1]);
                    mma_score(part ? low[m][t + 1] : score[m][t + 1], part, q[m][part], k[2], k[3]);
                }
        }
    }
#pragma unroll
    for (int32_t i = 0; i < (WEFT_PARTS > 1 ? WEFT_M * KEYS / 2 : 0); i++)
        score[i / (KEYS / 2)][i / 4 % (KEYS / 8)][i % 4] +=
            low[i / (KEYS / 2)][i / 4 % (KEYS / 8)][i % 4];
}

DEVICE void tile_scale(const float *scales, int32_t lane, float score[WEFT_M][KEYS / 8][4])
{
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
        scores_scale(scales, lane, score[m]);
}

DEVICE void tile_values(const uint8_t *slot, int32_t lane, const float weight[WEFT_M][KEYS / 8][4],
                        struct state *state)
{
    uint32_t v_row = shared_address(slot + PLANE_BYTES) + (lane % 16) * ROW_BYTES + lane / 16 * 16;
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t += 2) {
        uint32_t p[WEFT_M][WEFT_PARTS][4];
#pragma unroll
        for (int32_t m = 0; m < WEFT_M; m++)
            weights_narrow(weight[m], t, p[m]);
#pragma unroll
        for (int32_t i = 0; i < DIM / 8; i += 2) {
            uint32_t v[4];
            load_matrix_4_transposed(v, v_row + t * 8 * ROW_BYTES + i * 16);
#pragma unroll
            for (int32_t m = 0; m < WEFT_M; m++) {
#if WEFT_PARTS == 1
                mma_narrow<VALUE_DTYPE>(state->acc[m][i], p[m][0], v[0], v[1]);
                mma_narrow<VALUE_DTYPE>(state->acc[m][i + 1], p[m][0], v[2], v[3]);
#else
                float sum[2][4] =
                    {}; // of sixteen keys: products are cut off where the sum before them ends
#pragma unroll
                for (int32_t part = WEFT_PARTS - 1; part >= 0; part--) {
                    mma_narrow<VALUE_DTYPE>(sum[0], p[m][part], v[0], v[1]);
                    mma_narrow<VALUE_DTYPE>(sum[1], p[m][part], v[2], v[3]);
                }
#pragma unroll
                for (int32_t j = 0; j < 8; j++)
                    state->acc[m][i + j / 4][j % 4] += sum[j / 4][j % 4];
#endif
            }
        }
    }
}

// --- results --------------------------------------------------------------------------------------

// The longest items of a sequence come first, those of its last rows; blocks take them as they come.
DEVICE bool item_place(const struct weft__attention_device_args *args, struct place *at,
                       int32_t index, const struct scan *scan, int32_t before, int32_t)
{
    if (!place_find(args, at, index, scan, before))
        return false;
    at->row_tile = at->seq.items / args->heads_each - 1 - at->row_tile;
    return true;
}

DEVICE bool item_of(const struct weft__attention_device_args *args, int32_t lane, struct item *item)
{
    struct unit unit;
    struct place at;
    if (!unit_at(args, lane, (int32_t)blockIdx.x, &unit, &at))
        return false;
    if (threadIdx.x < WARP)
        item_set(args, &at, unit, lane, item);
    __syncthreads();
    return item->rows.count > 0;
}

extern "C" __global__ void __launch_bounds__(128, WEFT_BLOCKS)
    weft_attention_prefill(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct item item;
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    struct state state;
    let_next_start();
    wait_for_previous();
    if (!item_of(&args, lane, &item))
        return;
    int32_t key0 = item.begin;
    ring_clear_padding();
    tile_ask(&args, &item, own_page(&args, &item, key0), key0, shared_memory());
    int32_t page = own_page(&args, &item, key0 + KEYS); // of the lane's row of the next tile
    queries_load(&args, &item, warp, lane);
    state_begin(&state);
    for (uint32_t slot = 0; key0 < item.end_key; key0 += KEYS, slot ^= STAGE_BYTES) {
        uint8_t *from = shared_memory() + slot;
        COPY_WAIT(0);
        __syncthreads(); // the tile is there, and nobody works at the one before it
        if (key0 + KEYS < item.end_key) {
            tile_ask(&args, &item, page, key0 + KEYS, shared_memory() + (slot ^ STAGE_BYTES));
            page = own_page(&args, &item, key0 + 2 * KEYS);
        }
        const float *scales = (const float *)(from + 2 * RAW_PLANE_BYTES);
#if WEFT_CACHE > 3
        uint8_t *wide = shared_memory() + WEFT_STAGES * STAGE_BYTES;
        tile_widen<(DIM > 128        ? 1
                    : WEFT_PARTS > 1 ? 2
                                     : 4)>(from, wide, (int32_t)threadIdx.x, WARPS * WARP);
        __syncthreads();
        from = wide;
#endif
        if (key0 >= item.end[warp])
            continue;
        float score[WEFT_M][KEYS / 8][4] = {};
        struct biased biased[WEFT_M][2];
        biased_rows(&args, &item, warp, lane, biased);
        tile_scores(from, warp, lane, score);
        if (WEFT_SCALED)
            tile_scale(scales, lane, score);
        tile_prepare(&args, biased, key0, warp, lane, score);
        if (key0 < item.by_all[warp].begin || key0 + KEYS > item.by_all[warp].end)
            tile_mask(&args, &item, key0, warp, lane, score);
        float factor[WEFT_M][2];
        if (largest_follow(&args, warp, lane, &state, score, factor))
            acc_follow(&state, factor);
        tile_weights(&args, warp, lane, &state, score);
        if (WEFT_SCALED)
            tile_scale(scales + KEYS, lane, score);
        tile_values(from, lane, score, &state);
    }
    if (item.slices > 1)
        slice_finish(&args, &item, &state);
    else
        rows_finish(&args, &item, &state, warp, lane);
}
