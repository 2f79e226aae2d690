// SPDX-License-Identifier: MIT
// The merge of an item of two sixteens of rows that few blocks share: a warp merges four rows at a time, where row after row would
// be as many trips to memory.
#ifndef WEFT_KERNELS_ATTENTION_MERGE_ROWS_CUH
#define WEFT_KERNELS_ATTENTION_MERGE_ROWS_CUH

#include "src/kernels/attention/attention_merge.cuh"

enum { MERGED_ROWS = 4, MERGED_SLOTS = 4 }; // registers

// Rows `row0` to row0 + 3 of an item. A lane looks after a row's state in a slot.
DEVICE void rows_merge(const struct weft__attention_device_args *args, struct lengths lengths,
                       struct rows rows, int32_t row0, int32_t lane, struct holders by)
{
    const int32_t last_row = rows.count - 1, own = lane % MERGED_SLOTS;
    struct merged_rows<MERGED_ROWS> merged;
    merged_begin(&merged);
#pragma unroll 1
    for (int32_t i0 = by.first; i0 <= by.last; i0 += MERGED_SLOTS) {
        float2 state = make_float2(NEGATIVE_INFINITY, 0);
        if (i0 + own <= by.last)
            state = __ldcg((const float2 *)(slot_at(args, slot_of(args, by, i0 + own)) +
                                            args->slot_rows * DIM) +
                           min(row0 + lane / MERGED_SLOTS % MERGED_ROWS, last_row));
        float2 x[MERGED_ROWS][MERGED_SLOTS][QUERY_PAIRS];
#pragma unroll
        for (int32_t s = 0; s < MERGED_SLOTS; s++) {
            const float *const slot = slot_at(args, slot_of(args, by, i0 + s));
#pragma unroll
            for (int32_t r = 0; r < MERGED_ROWS; r++)
#pragma unroll
                for (int32_t k = 0; k < QUERY_PAIRS; k++) {
                    const int32_t d = 2 * (k * WARP + lane);
                    x[r][s][k] = make_float2(0, 0);
                    if (i0 + s <= by.last && (DIM % 64 == 0 || d < DIM))
                        x[r][s][k] =
                            __ldcg((const float2 *)(slot + min(row0 + r, last_row) * DIM + d));
                }
        }
        merged_add<MERGED_ROWS, MERGED_SLOTS>(&merged, state, x);
    }
#pragma unroll
    for (int32_t r = 0; r < MERGED_ROWS; r++) {
        const float2 state = merged_state<MERGED_ROWS, MERGED_SLOTS>(&merged, r);
        if (row0 + r > last_row)
            break;
        const struct row row = row_at(args, rows, row0 + r);
        store_row(args, lengths, row, lane, merged.value[r],
                  row_end(args, lengths, row, state.x, state.y, lane == 0));
    }
}

// As item_merge().
DEVICE void item_merge_rows(const struct weft__attention_device_args *args, struct lengths lengths,
                            struct rows rows, int32_t warp, int32_t lane, struct holders by)
{
#pragma unroll 1
    for (int32_t row0 = MERGED_ROWS * warp; row0 < rows.count; row0 += MERGED_ROWS * WARPS)
        rows_merge(args, lengths, rows, row0, lane, by);
}

#endif
