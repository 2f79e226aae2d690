// SPDX-License-Identifier: MIT
// Attention of a few queries per sequence over paged keys: the query heads of a KV head and the queries
// of a sequence are the 16 rows of a tensor-core product, or of two (WEFT_M), keys and values are read once for all of them.
// attention_device.h says how the work is divided.
//
// The warps stream tiles of keys of their own (attention_decode.cuh) and meet only at the end of an item
// (attention_merge.cuh).
//
// Function constants: WEFT_HEAD_DIM (a multiple of 8 up to 256, of 16 with one byte an element), WEFT_CACHE (the format
// of the cache, attention_widen.cuh), WEFT_SCALED (1: it may have scales), WEFT_KV_DTYPE (what tensor cores multiply,
// 2 f16, 3 bf16), WEFT_X_DTYPE and WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16; q also 4, 5 fp8) of q and out, WEFT_PARTS, WEFT_M (1, 2), WEFT_STAGES, WEFT_KEYS (16, 32), those of
// attention_mask.cuh, WEFT_HANDED (1: attention_handed.cuh, with WEFT_M 1; 2: and attention_filled.cuh, with WEFT_BOXES 1), WEFT_CODES (1: attention_codes.cuh), WEFT_BOXES (1: attention_boxes.cuh; 2: rows by the copy engine), WEFT_APPEND (attention_fresh.cuh) and WEFT_ROUNDED (results
// leave as int8, linear_device.h).
#include "src/kernels/attention/attention_decode.cuh"
#if !WEFT_HANDED
#include "src/kernels/attention/attention_merge_rows.cuh"
#endif

// Rows 16 m to 16 m + 15 of an item, if there are any.
DEVICE struct rows sixteen_of(struct rows rows, int32_t m)
{
    rows.first += 16 * m, rows.count = min(rows.count - 16 * m, 16);
    return rows;
}

// A warp per row: the warps' states become the result, or the states of rows `slot_row` and up of a slot.
DEVICE void item_finish(const struct weft__attention_device_args *args, struct lengths lengths,
                        struct rows rows, int32_t warp, int32_t lane, float *slot, int32_t slot_row)
{
    for (int32_t row = warp; row < rows.count; row += WARPS) {
        float largest = NEGATIVE_INFINITY, sum = 0, factor[WARPS];
        float2 value[QUERY_PAIRS] = {};
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++)
            largest = fmaxf(largest, shared_state(w, row, rows.count)[DIM]);
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++) {
            const float *state = shared_state(w, row, rows.count);
            factor[w] = weight_of(state[DIM], largest);
            sum += factor[w] * state[DIM + 1];
#pragma unroll
            for (int32_t i = 0; i < QUERY_PAIRS; i++)
                if (DIM % 64 == 0 || 2 * (i * WARP + lane) < DIM) {
                    const float2 x = *(const float2 *)(state + 2 * (i * WARP + lane));
                    value[i].x += factor[w] * x.x, value[i].y += factor[w] * x.y;
                }
        }
        if (slot) {
            slot_put(args, slot, slot_row + row, lane, value, make_float2(largest, sum));
        } else {
            const struct row own = row_at(args, rows, row);
            store_row(args, lengths, own, lane, value,
                      row_end(args, lengths, own, largest, sum, lane == 0));
        }
    }
}

// Finishes an item of `count` tiles, or leaves its state in `slot`: sixteen rows after the other, for their states share a place.
DEVICE void item_leave(const struct weft__attention_device_args *args, const struct work *work,
                       int32_t count, const struct state state[ROW_SIXTEENS], int32_t warp,
                       int32_t lane, float *slot)
{
    const struct place *at = &work->at;
#pragma unroll
    for (int32_t m = 0; m < ROW_SIXTEENS; m++) {
        const struct rows rows = sixteen_of(work->rows, m);
        if (rows.count <= 0)
            break;
        if (m > 0)
            __syncthreads();
        if (__syncthreads_or(state_store(&state[m], warp, lane, rows.count)))
            item_again(args, at, rows, count);
        item_finish(args, at->seq.lengths, rows, warp, lane, slot, 16 * m);
    }
}

#if WEFT_HANDED
DEVICE void item_end(const struct weft__attention_device_args *args, struct work *work,
                     int32_t count, const struct state state[ROW_SIXTEENS], int32_t warp,
                     int32_t lane)
{
    const struct place *at = &work->at;
    if (threadIdx.x == 0 && at->tile > 0 && at->tile + count == at->seq.tiles) {
        work->ended.lengths = at->seq.lengths, work->ended.rows = work->rows;
        work->ended.first = first_holder(args, at, work->share);
    }
    item_leave(args, work, count, state, warp, lane, slot_for(args, at, count));
}
#else
DEVICE void item_end(const struct weft__attention_device_args *args, struct work *work,
                     int32_t count, const struct state state[ROW_SIXTEENS], int32_t warp,
                     int32_t lane)
{
    const struct place *at = &work->at;
    const struct holders by = holders_of(args, at, work->share);
    float *const slot =
        count == at->seq.tiles ? NULL : slot_at(args, slot_of(args, by, number_of_block(args)));
    item_leave(args, work, count, state, warp, lane, slot);
    if (!slot || !item_last(counter_of(args, by), (uint32_t)(by.last - by.first + 1)))
        return;
    if (ROW_SIXTEENS > 1)
        item_merge_rows(args, at->seq.lengths, work->rows, warp, lane, by);
    else
        item_merge(args, at->seq.lengths, work->rows, warp, lane, by);
}
#endif

// The items of the block's share. waits: queries may be what the launch before has made.
DEVICE void items_walk(const struct weft__attention_device_args *args, struct work *work,
                       struct ring *ring, int32_t warp, int32_t lane, bool waits)
{
    for (;;) {
        const int32_t first_tile = work->at.tile, count = place_tiles(&work->at);
        struct state state[ROW_SIXTEENS];
        if (threadIdx.x == 0) {
            work->rows = rows_of(args, &work->at);
            work->by_all =
                keys_by_all(args, work->at.seq.lengths, row_at(args, work->rows, 0).token,
                            row_at(args, work->rows, work->rows.count - 1).token);
        }
#if WEFT_APPEND
        queries_load(args, &work->at, count, warp, lane, waits);
#else
        queries_load(args, work->at.seq.lengths, rows_of(args, &work->at), warp, lane, waits);
#endif
        waits = false;
#pragma unroll
        for (int32_t m = 0; m < ROW_SIXTEENS; m++)
            state_begin(&state[m]);
        __syncthreads();
        tiles_walk(args, work, ring, first_tile + warp, first_tile + count, state);
        item_end(args, work, count, state, warp, lane);
        if (share_ends(args, &work->at, count))
            break;
        const int32_t seq = work->at.seq.lengths.seq;
        __syncthreads();
        if (threadIdx.x == 0)
            place_advance(args, &work->at, count);
        __syncthreads();
#if WEFT_APPEND
        if (work->at.left > 0 && work->at.seq.lengths.seq != seq) {
            angles_make(args, work->at.seq.lengths.kv_len - 1);
            __syncthreads();
        }
#endif
    }
}

extern "C" __global__ void __launch_bounds__(128, 2)
    weft_attention_decode(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct work work;
    __shared__ struct place asked[WARPS];
    __shared__ uint64_t barriers[WEFT_BOXES ? WARPS * WEFT_STAGES : 1];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    let_next_start();
    if (!args.early)
        wait_for_previous();
    struct share share = {0, 0};
    struct ring ring;
#if FILLS
    __shared__ struct kept kept[WARPS];
    __shared__ struct fill_known known;
    const struct place at = place_kept(&args, lane, &kept[warp], &known, &share);
#else
    const struct place at = place_begin(&args, lane, &share);
#endif
    if (at.left == 0) { // who waits for this launch waits for the one before it
        wait_for_previous();
        return;
    }
    if (threadIdx.x == 0)
        work.at = at, work.share = share;
#if WEFT_HANDED
    if (threadIdx.x == 0)
        work.ended.rows.count = 0;
#endif
    if (lane == 0)
        asked[warp] = at;
    __syncwarp();
    ring_begin(&args, &ring, &asked[warp], barriers, warp, lane);
#pragma unroll 1
    for (int32_t i = 0; i < WEFT_STAGES; i++) {
        // with WEFT_APPEND the run's own keys come from shared memory
        if (!WEFT_APPEND && args.early && !ring_is_old(&ring))
            wait_for_previous();
        ring_ask(&args, &ring);
    }
#if WEFT_APPEND
    rows_clear(args.group_size);
    angles_make(&args, at.seq.lengths.kv_len - 1);
#endif
#if WEFT_BOXES == 1
    if (args.early) // memory has nothing to do from when the rings are full to when the launch before has ended
        ring_prefetch(&args, &ring);
#endif
    bool waits = args.early;
    if (WEFT_SCATTER && waits) // masks may be what the launch before has made
        wait_for_previous(), waits = false;
    __syncthreads();
    items_walk(&args, &work, &ring, warp, lane, waits);
#if WEFT_HANDED
    handed_merge(&args, &work.ended, warp, lane);
#endif
}
