// SPDX-License-Identifier: MIT
// Attention of many queries per sequence over paged keys: a block takes WEFT_M x 64 rows of queries (the queries of
// a sequence times the query heads of a KV head) and walks the keys that they see, WEFT_KEYS at a time. Scores,
// weights and results stay in registers; keys and values come through shared memory, the next tile while this
// one is worked at, with one barrier a tile.
//
// Blocks take items (attention_divide.cuh, splits 1) with the longest row tiles of a causal sequence first. Every
// row's sums are made by one warp in the order of the keys: two runs agree to the bit, whatever else is in the batch.
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
};

#include "src/kernels/attention/attention_scores.cuh"
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

// What a block works at, in shared memory.
struct item {
    struct sequence seq;
    struct rows rows;
    int32_t first_key, end_key, begin; // seen by one of the rows; of the first tile
    const int32_t *pages;
    struct weft__attention_device_plane planes[2]; // keys, values; data: of the KV head
    struct keys by_all[WARPS];                     // seen by all rows of a warp
    int32_t end[WARPS];                            // of what its rows see
};

// What a lane holds of its warp's rows 16 m + r and 16 m + r + 8.
struct state {
    float acc[WEFT_M][DIM / 8][4];
    float largest[WEFT_M][2], sum[WEFT_M][2]; // sum: of this lane's keys
};

// --- keys and values to shared memory -------------------------------------------------------------

DEVICE bool item_sees(const struct item *item, int32_t key)
{
    return key >= item->first_key && key < item->end_key;
}

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
            query_fetch(args, item->seq.lengths, item->rows, r0 + i, lane, x[i]);
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

// Where a row does not see a key, minus infinity.
DEVICE void tile_mask(const struct weft__attention_device_args *args, const struct item *item,
                      int32_t key0, int32_t warp, int32_t lane, float score[WEFT_M][KEYS / 8][4])
{
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
        scores_mask(args, item->rows, item->seq.lengths, warp * WARP_ROWS + 16 * m, key0, lane,
                    score[m]);
}

// What a score is multiplied by to be in units of log2, after tile_prepare().
DEVICE float unit_of(const struct weft__attention_device_args *args, int32_t row)
{
    float unit = SCORES_PREPARED ? 1.0f : fabsf(args->scale) * LOG2_E;
    return FACTORS && !SCORES_PREPARED ? unit * shared_factors()[row] : unit;
}

// Scores as unit_of() wants them: soft-cap and bias done, or negated where the scale is below 0.
DEVICE void tile_prepare(const struct weft__attention_device_args *args, const struct item *item,
                         int32_t key0, int32_t warp, int32_t lane, float score[WEFT_M][KEYS / 8][4])
{
    if (!SCORES_PREPARED && args->scale >= 0)
        return;
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const int32_t at = warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half;
            const struct row row = row_at(args, item->rows, min(at, item->rows.count - 1));
            const float factor = FACTORS ? shared_factors()[at] : 1.0f;
            const float slope = slope_of(args, row.head);
            const int32_t own = item->seq.lengths.kv_len - item->seq.lengths.q_len + row.token;
#pragma unroll
            for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
                for (int32_t i = 0; i < 2; i++) {
                    float *x = &score[m][t][2 * half + i];
                    const int32_t far = own - (key0 + 8 * t + 2 * (lane % 4) + i);
                    *x = SCORES_PREPARED ? score_log2(args, *x * factor, slope, far) : -*x;
                }
        }
}

// acc and sum follow new largest scores.
DEVICE void state_follow(struct state *state, const float most[WEFT_M][2])
{
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const float largest = fmaxf(state->largest[m][half], most[m][half]);
            const float factor = weight_of(state->largest[m][half], largest);
            state->largest[m][half] = largest, state->sum[m][half] *= factor;
#pragma unroll
            for (int32_t t = 0; t < DIM / 8; t++)
                state->acc[m][t][2 * half] *= factor, state->acc[m][t][2 * half + 1] *= factor;
        }
}

// Scores become weights exp2(score - largest), where `largest` may be SLACK behind the largest score.
DEVICE void tile_weights(const struct weft__attention_device_args *args, int32_t warp, int32_t lane,
                         struct state *state, float score[WEFT_M][KEYS / 8][4])
{
    float most[WEFT_M][2];
    bool follows = false;
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            most[m][half] = score[m][0][2 * half];
#pragma unroll
            for (int32_t t = 0; t < KEYS / 8; t++)
                most[m][half] =
                    fmaxf(most[m][half], fmaxf(score[m][t][2 * half], score[m][t][2 * half + 1]));
            const float unit = unit_of(args, warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half);
            most[m][half] = warp_max(most[m][half], 4) * unit;
            follows |= most[m][half] > state->largest[m][half] + SLACK;
        }
    if (__any_sync(0xffffffffu, follows))
        state_follow(state, most);
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const float unit = unit_of(args, warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half);
            const float largest = state->largest[m][half];
            // a row that has seen nothing: weights of 0, not of NaN
            const float from = largest == NEGATIVE_INFINITY ? 0.0f : WEIGHT_EXPONENT - largest;
            float sum =
                0; // of the tile: many equal numbers added one by one are off in one direction
#pragma unroll
            for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
                for (int32_t i = 2 * half; i < 2 * half + 2; i++) {
                    score[m][t][i] = exp2_of(fmaf(score[m][t][i], unit, from));
                    sum += score[m][t][i];
                }
            state->sum[m][half] += sum;
        }
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

DEVICE void store_two(const struct weft__attention_device_args *args, int64_t index, float a,
                      float b)
{
    set_element<WEFT_Y_DTYPE>(args->out, index, a);
    set_element<WEFT_Y_DTYPE>(args->out, index + 1, b);
}

// The warp's rows once more, one by one.
static __device__ __noinline__ void rows_again(const struct weft__attention_device_args *args,
                                               const struct item *item)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    for (int32_t i = 0; i < WARP_ROWS && warp * WARP_ROWS + i < item->rows.count; i++) {
        const struct row row = row_at(args, item->rows, warp * WARP_ROWS + i);
        struct row_state again;
        row_again(args, item->seq.lengths, row, item->rows.kv_head, item->first_key, item->end_key,
                  &again);
        const float by = row_end(args, item->seq.lengths, row, again.largest, again.sum, lane == 0);
        const int64_t at = out_at(args, item->seq.lengths, row);
#pragma unroll
        for (int32_t j = 0; j < (HEAD + WARP - 1) / WARP; j++)
            if (HEAD % WARP == 0 || j * WARP + lane < HEAD)
                set_element<WEFT_Y_DTYPE>(args->out, at + j * WARP + lane, again.acc[j] * by);
    }
}

// Stores the warp's rows; those whose numbers are not finite are computed again.
DEVICE void rows_finish(const struct weft__attention_device_args *args, const struct item *item,
                        const struct state *state, int32_t warp, int32_t lane)
{
    float nothing = 0; // 0 unless something is not finite
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const int32_t at = warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half;
            const float sum = warp_sum(state->sum[m][half], 4);
            if (at >= item->rows.count)
                continue;
            const struct row row = row_at(args, item->rows, at);
            const float by =
                WEIGHT_UNIT * row_end(args, item->seq.lengths, row, state->largest[m][half],
                                      sum * WEIGHT_UNIT, lane % 4 == 0);
            const int64_t to = out_at(args, item->seq.lengths, row) + 2 * (lane % 4);
            nothing += sum * 0.0f;
#pragma unroll
            for (int32_t t = 0; t < DIM / 8; t++) {
                float a = state->acc[m][t][2 * half], b = state->acc[m][t][2 * half + 1];
                nothing += a * 0.0f + b * 0.0f;
                if (DIM == HEAD || 8 * t < HEAD)
                    store_two(args, to + 8 * t, a * by, b * by);
            }
            asm volatile("" ::: "memory"); // one row after the other: registers
        }
    if (__any_sync(0xffffffffu, nothing != 0.0f))
        rows_again(args, item);
}

DEVICE bool item_of(const struct weft__attention_device_args *args, int32_t lane, struct item *item)
{
    int32_t each;
    struct place at = place_begin(args, lane, &each);
    if (at.left == 0)
        return false;
    const int32_t warp = (int32_t)threadIdx.x / WARP, first = warp * WARP_ROWS;
    const struct lengths lengths = at.seq.lengths;
    at.row_tile = at.seq.items / args->num_kv_heads - 1 - at.row_tile;
    const struct rows rows = rows_of(args, &at);
    const int32_t last = min(first + WARP_ROWS, rows.count) - 1;
    if (lane == 0) {
        const int32_t first_token = row_at(args, rows, first).token;
        const int32_t last_token = row_at(args, rows, max(first, last)).token;
        item->by_all[warp] = keys_by_all(args, lengths, first_token, last_token);
        item->end[warp] = first <= last ? keys_of(args, lengths, last_token).end : 0;
    }
    if (threadIdx.x == 0) {
        item->seq = at.seq, item->rows = rows;
        item->end_key = keys_of(args, lengths, row_at(args, rows, rows.count - 1).token).end;
        item->first_key =
            min(first_key_of(args, lengths, row_at(args, rows, 0).token), item->end_key);
        item->begin = item->first_key / KEYS * KEYS;
        item->pages = pages_of(args, lengths.seq);
        item->planes[0] = args->k, item->planes[1] = args->v;
        for (int32_t i = 0; i < 2; i++)
            item->planes[i].data = (const uint8_t *)item->planes[i].data +
                                   at.kv_head * item->planes[i].head_stride * BYTES;
    }
    __syncthreads();
    return true;
}

DEVICE void state_begin(struct state *state)
{
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            state->largest[m][half] = NEGATIVE_INFINITY, state->sum[m][half] = 0;
#pragma unroll
            for (int32_t t = 0; t < DIM / 8; t++)
                state->acc[m][t][2 * half] = state->acc[m][t][2 * half + 1] = 0;
        }
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
        tile_scores(from, warp, lane, score);
        if (WEFT_SCALED)
            tile_scale(scales, lane, score);
        tile_prepare(&args, &item, key0, warp, lane, score);
        if (key0 < item.by_all[warp].begin || key0 + KEYS > item.by_all[warp].end)
            tile_mask(&args, &item, key0, warp, lane, score);
        tile_weights(&args, warp, lane, &state, score);
        if (WEFT_SCALED)
            tile_scale(scales + KEYS, lane, score);
        tile_values(from, lane, score, &state);
    }
    rows_finish(&args, &item, &state, warp, lane);
}
