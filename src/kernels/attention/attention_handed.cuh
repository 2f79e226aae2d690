// SPDX-License-Identifier: MIT
// Items in several blocks, without a counter (WEFT_HANDED): a block whose share ends within an item hands the state of its
// part on, in a place of its number (attention_places.cuh), and the block that has the item's last tile merges them when its share is done.
//
//      place: float acc[ROWS][HANDED_ROW] as lanes have it, (largest, sum)[ROWS]
//
// A block waits for blocks of lower numbers alone. They start before it, so it waits for none that waits for its place on the device.
// Its own state of the item lies meanwhile in a place that nobody else reads.
#ifndef WEFT_KERNELS_ATTENTION_HANDED_CUH
#define WEFT_KERNELS_ATTENTION_HANDED_CUH

#include "src/kernels/attention/attention_merge.cuh"
#include "src/kernels/attention/attention_places.cuh"

enum {
    HANDED_ROW = 64 * QUERY_PAIRS, // floats
    HANDED_FLOATS = ROWS * (HANDED_ROW + 2),
    HANDED_TOGETHER = 32, // places that are read at once
};
static_assert(QUERY_PAIRS <= 2 && ROWS == WEFT__ATTENTION_ROWS, "a lane's words of a row");

// The item that ended in the block and began in an earlier one; rows.count 0: there is none.
struct ended {
    struct lengths lengths;
    struct rows rows;
    int32_t first; // block of its file that it began in
};

DEVICE float *handed_at(const struct weft__attention_device_args *args, float *places,
                        int32_t number)
{
    const int32_t blocks = (int32_t)gridDim.x / args->heads_abreast;
    return places + (file_of_block(args) * blocks + number) * HANDED_FLOATS;
}

// The lane's part of a row of a place.
DEVICE float *place_row(float *place, int32_t row, int32_t lane)
{
    return place + row * HANDED_ROW + 2 * QUERY_PAIRS * lane;
}

DEVICE float *place_state(float *place, int32_t row)
{
    return place + ROWS * HANDED_ROW + 2 * row;
}

// Where the state of `count` tiles from the block's place on goes; NULL: it is all of the item.
DEVICE float *slot_for(const struct weft__attention_device_args *args, const struct place *at,
                       int32_t count)
{
    if (count == at->seq.tiles)
        return NULL;
    return handed_at(args, at->tile + count == at->seq.tiles ? args->slots : args->handed,
                     number_of_block(args));
}

DEVICE void slot_put(const struct weft__attention_device_args *, float *slot, int32_t row,
                     int32_t lane, const float2 value[QUERY_PAIRS], float2 state)
{
    float2 pairs[QUERY_PAIRS];
#pragma unroll
    for (int32_t k = 0; k < QUERY_PAIRS; k++)
        pairs[k] = pair_of(value[k]);
    pairs_send(place_row(slot, row, lane), pairs);
    if (lane == 0)
        send_pair(place_state(slot, row), pair_of(state));
}

// A row of an item, as a warp has it.
struct merged {
    float2 value[QUERY_PAIRS];
    float largest, sum; // sum: of this lane's places
};

// Adds what `count` places, from `place` on, have of a row; of those that are not there yet it asks again.
DEVICE void handed_add(float *place, int32_t count, int32_t row, int32_t lane,
                       struct merged *merged)
{
    float2 state = make_float2(NEGATIVE_INFINITY, 0), x[HANDED_TOGETHER][QUERY_PAIRS];
    const float *const states = place_state(place + lane * HANDED_FLOATS, row);
    const float *const rows = place_row(place, row, lane);
    if (lane < count)
        receive_pair(states, &state);
#pragma unroll
    for (int32_t j = 0; j < HANDED_TOGETHER; j++) {
        x[j][0] = x[j][QUERY_PAIRS - 1] = make_float2(0, 0);
        if (j < count)
            pairs_receive(rows + j * HANDED_FLOATS, x[j]);
    }
    bool waits;
    do {
        waits = !is_there(state);
        if (waits)
            receive_pair(states, &state);
#pragma unroll
        for (int32_t j = 0; j < HANDED_TOGETHER; j++)
            if (!is_there(x[j][0]) | !is_there(x[j][QUERY_PAIRS - 1]))
                pairs_receive(rows + j * HANDED_FLOATS, x[j]), waits = true;
    } while (__any_sync(0xffffffffu, waits));
    const float most = fmaxf(merged->largest, warp_max(state.x, 32));
    const float earlier = weight_of(merged->largest, most), factor = weight_of(state.x, most);
    merged->sum = merged->sum * earlier + factor * state.y, merged->largest = most;
#pragma unroll
    for (int32_t k = 0; k < QUERY_PAIRS; k++)
        merged->value[k].x *= earlier, merged->value[k].y *= earlier;
#pragma unroll
    for (int32_t j = 0; j < HANDED_TOGETHER; j += 4) {
        float weight[4];
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            weight[i] = __shfl_sync(0xffffffffu, factor, j + i);
        four_add(weight, x + j, merged->value);
    }
}

// The row's pairs of `count` places as they are between launches.
DEVICE void handed_clear(float *place, int32_t count, int32_t row, int32_t lane)
{
    const float2 pairs[2] = {no_pair(), no_pair()};
#pragma unroll 4
    for (int32_t j = 0; j < count; j++)
        pairs_send(place_row(place + j * HANDED_FLOATS, row, lane), pairs);
    for (int32_t j = lane; j < count; j += WARP)
        send_pair(place_state(place + j * HANDED_FLOATS, row), pairs[0]);
}

// The states of the item that ended in the block, its own first, then in the order of the blocks: a warp per row.
DEVICE void handed_merge(const struct weft__attention_device_args *args, const struct ended *item,
                         int32_t warp, int32_t lane)
{
    const int32_t count = number_of_block(args) - item->first;
    float *const own = handed_at(args, args->slots, number_of_block(args));
    float *const first = handed_at(args, args->handed, item->first);
    __syncwarp();
#pragma unroll 1
    for (int32_t row = warp; row < item->rows.count; row += WARPS) {
        // what this warp stored
        const float2 state = __ldcg((const float2 *)place_state(own, row));
        struct merged merged = {{}, state.x, lane == 0 ? state.y : 0.0f};
#pragma unroll
        for (int32_t k = 0; k < QUERY_PAIRS; k++)
            merged.value[k] = __ldcg((const float2 *)place_row(own, row, lane) + k);
#pragma unroll 1
        for (int32_t i = 0; i < count; i += HANDED_TOGETHER)
            handed_add(first + i * HANDED_FLOATS, min(count - i, HANDED_TOGETHER), row, lane,
                       &merged);
        const float sum = warp_sum(merged.sum, 32);
        const struct row at = row_at(args, item->rows, row);
        store_row(args, item->lengths, at, lane, merged.value,
                  row_end(args, item->lengths, at, merged.largest, sum, lane == 0));
        handed_clear(first, count, row, lane);
    }
}

#endif
