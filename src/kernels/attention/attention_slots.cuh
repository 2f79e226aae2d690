// SPDX-License-Identifier: MIT
// Items in several blocks: each leaves its state in a slot in memory, and whoever leaves an item's last one merges them in
// their order (attention_device.h).
#ifndef WEFT_KERNELS_ATTENTION_SLOTS_CUH
#define WEFT_KERNELS_ATTENTION_SLOTS_CUH

#include "src/kernels/attention/attention_merge.cuh"

DEVICE float *slot_at(const struct weft__attention_device_args *args, int32_t index)
{
    return args->slots + (int64_t)index * (args->slot_rows * (DIM + 2));
}

// The state of row `row` of an item into a slot: a warp. value: as store_row() has them.
DEVICE void slot_put(const struct weft__attention_device_args *args, float *slot, int32_t row,
                     int32_t lane, const float2 value[QUERY_PAIRS], float2 state)
{
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++)
        if (DIM % 64 == 0 || 2 * (i * WARP + lane) < DIM)
            *(float2 *)(slot + row * DIM + 2 * (i * WARP + lane)) = value[i];
    if (lane == 0)
        *(float2 *)(slot + args->slot_rows * DIM + 2 * row) = state;
}

// Merges the states that the blocks of an item left, in the order of the blocks: a warp per row, 32 blocks at a time. Trips
// to memory are what it takes time for, so numbers are asked for before it is known what they count for.
DEVICE void item_merge(const struct weft__attention_device_args *args, struct lengths lengths,
                       struct rows rows, int32_t warp, int32_t lane, struct holders by)
{
    enum { TOGETHER = DIM > 128 ? 4 : 32 };
    for (int32_t row = warp; row < rows.count; row += WARPS) {
        float largest = NEGATIVE_INFINITY, sum = 0;
        float2 value[QUERY_PAIRS] = {};
        for (int32_t i0 = by.first; i0 <= by.last; i0 += WARP) {
            const int32_t count = min(by.last - i0 + 1, WARP);
            float2 state = make_float2(NEGATIVE_INFINITY, 0);
            if (lane < count)
                state = __ldcg((const float2 *)(slot_at(args, slot_of(args, by, i0 + lane)) +
                                                args->slot_rows * DIM + 2 * row));
            float factor = 0;
            for (int32_t j0 = 0; j0 < count; j0 += TOGETHER) {
                float2 x[TOGETHER][QUERY_PAIRS];
#pragma unroll
                for (int32_t j = 0; j < TOGETHER; j++) {
                    const float *slot = slot_at(args, slot_of(args, by, i0 + j0 + j)) + row * DIM;
#pragma unroll
                    for (int32_t k = 0; k < QUERY_PAIRS; k++) {
                        const int32_t d = 2 * (k * WARP + lane);
                        x[j][k] = make_float2(0, 0);
                        if (j0 + j < count && (DIM % 64 == 0 || d < DIM))
                            x[j][k] = __ldcg((const float2 *)(slot + d));
                    }
                }
                if (j0 == 0) {
                    const float most = fmaxf(largest, warp_max(state.x, 32));
                    const float earlier = weight_of(largest, most);
                    factor = weight_of(state.x, most);
                    sum = sum * earlier + factor * state.y, largest = most;
#pragma unroll
                    for (int32_t k = 0; k < QUERY_PAIRS; k++)
                        value[k].x *= earlier, value[k].y *= earlier;
                }
#pragma unroll
                for (int32_t j = 0; j < TOGETHER; j += 4) {
                    float weight[4];
#pragma unroll
                    for (int32_t i = 0; i < 4; i++)
                        weight[i] = __shfl_sync(0xffffffffu, factor, (j0 + j + i) % WARP);
                    four_add(weight, x + j, value);
                }
            }
        }
        sum = warp_sum(sum, 32);
        const struct row own = row_at(args, rows, row);
        store_row(args, lengths, own, lane, value,
                  row_end(args, lengths, own, largest, sum, lane == 0));
    }
}

#endif
