// SPDX-License-Identifier: MIT
// The end of a slice of an item of prefill (attention_device.h): its rows' states go to a slot of the workspace, and the block that
// leaves the last one of an item merges them in the order of the keys.
//
// The kernel defines what attention_prefill.cuh wants, and SLICE_END: a barrier for the warps that multiply.
#ifndef WEFT_KERNELS_ATTENTION_SLICES_CUH
#define WEFT_KERNELS_ATTENTION_SLICES_CUH

#include "src/kernels/attention/attention_prefill.cuh"
#include "src/kernels/attention/attention_states.cuh"

enum {
    MERGED_ROWS =
        4, // at once, of so many slices: as much as registers hold, for a trip to memory is what it takes time for
    MERGED_SLICES = DIM > 128 ? 4 : 8,
};

// Leaves the warp's states in the slot; rows whose numbers are not finite are computed again.
DEVICE void states_leave(const struct weft__attention_device_args *args, const struct item *item,
                         const struct state *state, int32_t warp, int32_t lane)
{
    float nothing = 0; // 0 unless something is not finite
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const int32_t row = warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half;
            const float sum = warp_sum(state->sum[m][half], 4);
            if (row >= item->rows.count)
                continue;
            float2 *const to = (float2 *)slot_acc(args, item->slot, row) + lane % 4;
            nothing += sum_nothing(state, m, half, sum);
#pragma unroll
            for (int32_t t = 0; t < DIM / 8; t++) {
                const float2 x =
                    make_float2(state->acc[m][t][2 * half], state->acc[m][t][2 * half + 1]);
                to[4 * t] = make_float2(x.x * WEIGHT_UNIT, x.y * WEIGHT_UNIT);
                nothing += x.x * 0.0f + x.y * 0.0f;
            }
            if (lane % 4 == 0)
                *slot_sum(args, item->slot, row) =
                    make_float2(state->largest[m][half], sum * WEIGHT_UNIT);
        }
    if (__any_sync(0xffffffffu, nothing != 0.0f)) {
        __syncwarp();
        rows_again(args, item);
    }
}

// True for the block that leaves the last slice of an item. The barriers make the other threads' stores part of what the
// atomic releases, and its acquire part of what they see.
DEVICE bool slice_last(const struct weft__attention_device_args *args, const struct item *item)
{
    __shared__ uint32_t ticket;
    part_sync<WARPS * WARP>(SLICE_END);
    if (threadIdx.x == 0)
        ticket = atomic_count_ordered(args->counters + item->counter, (uint32_t)item->slices);
    part_sync<WARPS * WARP>(SLICE_END);
    return ticket + 1 == (uint32_t)item->slices;
}

// Merges rows `row0` to row0 + MERGED_ROWS - 1 of an item. A lane looks after a row's state in a slice.
DEVICE void rows_merge(const struct weft__attention_device_args *args, const struct item *item,
                       int32_t row0, int32_t lane)
{
    const int32_t most_row = item->rows.count - 1;
    const int32_t own = min(row0 + lane / MERGED_SLICES % MERGED_ROWS, most_row);
    struct merged_rows<MERGED_ROWS> merged;
    merged_begin(&merged);
#pragma unroll 1
    for (int32_t s0 = 0; s0 < item->slices; s0 += MERGED_SLICES) {
        const int32_t first = item->first_slot + s0, count = item->slices - s0;
        float2 state = make_float2(NEGATIVE_INFINITY, 0);
        if (lane % MERGED_SLICES < count)
            state = __ldcg(slot_sum(args, first + lane % MERGED_SLICES, own));
        // rows that do not exist are numbers that nobody takes
        const float2 *const base = (const float2 *)slot_acc(args, first, row0) + lane;
        float2 x[MERGED_ROWS][MERGED_SLICES][QUERY_PAIRS];
#pragma unroll
        for (int32_t r = 0; r < MERGED_ROWS; r++)
#pragma unroll
            for (int32_t s = 0; s < MERGED_SLICES; s++) {
                const float2 *const from = base + (s * ROWS * (DIM + 2) + r * DIM) / 2;
#pragma unroll
                for (int32_t i = 0; i < QUERY_PAIRS; i++)
                    x[r][s][i] = s < count && (DIM % 64 == 0 || 2 * (i * WARP + lane) < DIM)
                                     ? __ldcg(from + i * WARP)
                                     : make_float2(0, 0);
            }
        merged_add<MERGED_ROWS, MERGED_SLICES>(&merged, state, x);
    }
#pragma unroll
    for (int32_t r = 0; r < MERGED_ROWS; r++) {
        const float2 state = merged_state<MERGED_ROWS, MERGED_SLICES>(&merged, r);
        if (row0 + r > most_row)
            break;
        const struct row row = row_at(args, item->rows, row0 + r);
        const struct lengths lengths = item->seq.lengths;
        pairs_store(args, out_at(args, lengths, row), lane, merged.value[r],
                    row_end(args, lengths, row, state.x, state.y, lane == 0));
    }
}

// Merges the slices of the warp's rows. Apart, for its registers.
static __device__ __noinline__ void item_merge(const struct weft__attention_device_args *args,
                                               const struct item *item)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
#pragma unroll 1
    for (int32_t i = 0; i < WARP_ROWS; i += MERGED_ROWS)
        if (warp * WARP_ROWS + i < item->rows.count)
            rows_merge(args, item, warp * WARP_ROWS + i, lane);
}

// Ends a slice of an item.
DEVICE void slice_finish(const struct weft__attention_device_args *args, const struct item *item,
                         const struct state *state)
{
    states_leave(args, item, state, (int32_t)threadIdx.x / WARP, (int32_t)threadIdx.x % WARP);
    if (slice_last(args, item))
        item_merge(args, item);
}

#endif
