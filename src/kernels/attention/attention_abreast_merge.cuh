// SPDX-License-Identifier: MIT
// The end of an item in attention_abreast.cu: the warp's rows become results, or what the block has of them a part, which the block with
// the item's last tile merges with those of the blocks before it when its share is done.
//
// Of an item in many blocks it would have as much to read as a tile or two for each: so every eighth block of an item, counted from
// its first, merges the seven before it with its own and hands on one part for all eight. A block waits for blocks of lower numbers
// alone, which start before it. Words of a part say by themselves whether they are there (attention_places.cuh).
//
//      place of a block and KV head: float acc[ROWS][DIM], a lane's pairs of a row side by side; (largest, sum)[ROWS]
#ifndef WEFT_KERNELS_ATTENTION_ABREAST_MERGE_CUH
#define WEFT_KERNELS_ATTENTION_ABREAST_MERGE_CUH

#include "src/kernels/attention/attention_log2.cuh"
#include "src/kernels/attention/attention_places.cuh"
#include "src/kernels/attention/attention_states.cuh"

enum {
    PLACE_FLOATS = ROWS * (DIM + 2),
    LED = 8, // blocks of which one merges
    // Rows, and parts of them, that are read at once.
    ROWS_AT_ONCE = 2,
    PARTS_AT_ONCE = 8,
};
static_assert(PLACE_FLOATS <= WEFT__ATTENTION_HANDED_FLOATS && HEAD % 64 == 0,
              "a place of the batch, whole pairs");

DEVICE float *place_at(float *places, int32_t number, int32_t head)
{
    return places + (number * HEADS + head) * PLACE_FLOATS;
}

// The lane's pairs of a row.
DEVICE float *place_row(float *place, int32_t row, int32_t lane)
{
    return place + row * DIM + 2 * QUERY_PAIRS * lane;
}

DEVICE float *place_state(float *place, int32_t row)
{
    return place + ROWS * DIM + 2 * row;
}

// The rows of the warp as tensor cores give them; of row lane / 4 of a half, two columns of every eight.
DEVICE void state_send(float *place, const struct state *state, int32_t rows, int32_t lane)
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t row = 8 * half + lane / 4;
        if (row >= rows)
            continue;
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++)
            send_pair(place_row(place, row, 4 * (t % 8) + lane % 4) + t / 8 * 2,
                      pair_of(make_float2(state->acc[t][2 * half], state->acc[t][2 * half + 1])));
        if (lane % 4 == 0)
            send_pair(place_state(place, row),
                      pair_of(make_float2(state->largest[half], state->sum[half])));
    }
}

// The results of the rows.
DEVICE void state_finish(const struct weft__attention_device_args *args, struct lengths lengths,
                         struct rows rows, const struct state *state, int32_t lane)
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const int32_t at = 8 * half + lane / 4;
        if (at >= rows.count)
            continue;
        const struct row row = row_at(args, rows, at);
        const float by =
            row_end(args, lengths, row, state->largest[half], state->sum[half], lane % 4 == 0);
        const int64_t to = out_at(args, lengths, row) + 2 * (computed_here(lane) % 4);
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++)
                set_element<WEFT_Y_DTYPE>(args->out, to + 8 * t + i,
                                          state->acc[t][2 * half + i] * by);
    }
}

// In shared memory: what a warp merges when the share is done: its own part, then those of an item's blocks from `first` on, of each
// eight that are led one.
struct merge {
    struct share share; // the block's
    struct lengths lengths;
    struct rows rows; // count 0: nothing
    int32_t first, led, others;
    bool goes_on; // the item does, and the sum is handed on
};

DEVICE float *part_place(const struct weft__attention_device_args *args, const struct merge *merge,
                         int32_t part, int32_t warp)
{
    const int32_t i = part - 1, led = merge->led;
    if (part == 0)
        return place_at(args->slots, number_of_block(args), warp);
    return place_at(args->handed,
                    merge->first + (i < led ? LED * i + LED - 1 : LED * led + i - led), warp);
}

// What a warp reads at once of up to PARTS_AT_ONCE parts; lane l has (largest, sum) of row l / PARTS_AT_ONCE of part
// l % PARTS_AT_ONCE.
struct parts {
    float2 state, x[ROWS_AT_ONCE][PARTS_AT_ONCE][QUERY_PAIRS];
};

// Asks for `count` parts from `first` on, rows from `row0` on, until all of it is there.
DEVICE void parts_receive(const struct weft__attention_device_args *args, const struct merge *merge,
                          int32_t first, int32_t count, int32_t row0, int32_t warp, int32_t lane,
                          struct parts *parts)
{
    const int32_t last_row = merge->rows.count - 1;
    const float *const own =
        place_state(part_place(args, merge, first + min(lane % PARTS_AT_ONCE, count - 1), warp),
                    min(row0 + lane / PARTS_AT_ONCE, last_row));
    bool waits;
    parts->state = lane % PARTS_AT_ONCE < count ? no_pair() : make_float2(NEGATIVE_INFINITY, 0);
#pragma unroll
    for (int32_t r = 0; r < ROWS_AT_ONCE; r++)
#pragma unroll
        for (int32_t s = 0; s < PARTS_AT_ONCE; s++)
#pragma unroll
            for (int32_t k = 0; k < QUERY_PAIRS; k++)
                parts->x[r][s][k] = s < count ? no_pair() : make_float2(0, 0);
    do {
        waits = !is_there(parts->state);
        if (waits)
            receive_pair(own, &parts->state);
#pragma unroll
        for (int32_t s = 0; s < PARTS_AT_ONCE; s++) {
            float *const place = part_place(args, merge, first + s, warp);
#pragma unroll
            for (int32_t r = 0; r < ROWS_AT_ONCE; r++)
                if (!is_there(parts->x[r][s][0]) | !is_there(parts->x[r][s][QUERY_PAIRS - 1]))
                    pairs_receive(place_row(place, min(row0 + r, last_row), lane), parts->x[r][s]),
                        waits = true;
        }
    } while (__any_sync(0xffffffffu, waits));
}

// The rows of parts that others handed on become what they are between launches.
DEVICE void parts_clear(const struct weft__attention_device_args *args, const struct merge *merge,
                        int32_t warp, int32_t lane)
{
    const float2 nothing[2] = {no_pair(), no_pair()};
#pragma unroll 1
    for (int32_t part = 1; part <= merge->led + merge->others; part++) {
        float *const place = part_place(args, merge, part, warp);
#pragma unroll 4
        for (int32_t row = 0; row < merge->rows.count; row++)
            pairs_send(place_row(place, row, lane), nothing);
        if (lane < merge->rows.count)
            send_pair(place_state(place, lane), nothing[0]);
    }
}

DEVICE void parts_merge(const struct weft__attention_device_args *args, const struct merge *merge,
                        int32_t warp, int32_t lane)
{
    const int32_t count = 1 + merge->led + merge->others;
#pragma unroll 1
    for (int32_t row0 = 0; row0 < merge->rows.count; row0 += ROWS_AT_ONCE) {
        struct merged_rows<ROWS_AT_ONCE> merged;
        merged_begin(&merged);
#pragma unroll 1
        for (int32_t i = 0; i < count; i += PARTS_AT_ONCE) {
            struct parts parts;
            parts_receive(args, merge, i, min(count - i, (int32_t)PARTS_AT_ONCE), row0, warp, lane,
                          &parts);
            merged_add<ROWS_AT_ONCE, PARTS_AT_ONCE>(&merged, parts.state, parts.x);
        }
#pragma unroll
        for (int32_t r = 0; r < ROWS_AT_ONCE; r++) {
            const float2 state = merged_state<ROWS_AT_ONCE, PARTS_AT_ONCE>(&merged, r);
            if (row0 + r >= merge->rows.count)
                break;
            if (merge->goes_on) {
                float *const place = place_at(args->handed, number_of_block(args), warp);
                float2 pairs[QUERY_PAIRS];
#pragma unroll
                for (int32_t k = 0; k < QUERY_PAIRS; k++)
                    pairs[k] = pair_of(merged.value[r][k]);
                pairs_send(place_row(place, row0 + r, lane), pairs);
                if (lane == 0)
                    send_pair(place_state(place, row0 + r), pair_of(state));
                continue;
            }
            const struct row row = row_at(args, merge->rows, row0 + r);
            pairs_store(args, out_at(args, merge->lengths, row), lane, merged.value[r],
                        row_end(args, merge->lengths, row, state.x, state.y, lane == 0));
        }
    }
    parts_clear(args, merge, warp, lane);
}

// Sums over the lanes of a row, in units without WEIGHT_EXPONENT. True if one is not finite: a weight of 0 for a key that a row does not see turns
// an infinite value into NaN.
DEVICE bool state_settle(struct state *state, int32_t rows, int32_t lane)
{
    float nothing = 0; // 0 unless something is not finite
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const bool exists = 8 * half + lane / 4 < rows;
        state->sum[half] = warp_sum(state->sum[half], 4) * WEIGHT_UNIT;
        nothing += exists ? state->sum[half] * 0.0f : 0;
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
            for (int32_t i = 2 * half; i < 2 * half + 2; i++) {
                state->acc[t][i] *= WEIGHT_UNIT;
                nothing += exists ? state->acc[t][i] * 0.0f : 0;
            }
    }
    return __any_sync(0xffffffffu, nothing != 0.0f);
}

// The state of a row of the item once more, product by product: its columns, largest, sum in `scratch`.
DEVICE void row_leave(const struct weft__attention_device_args *args, struct lengths lengths,
                      struct row row, int32_t kv_head, struct keys keys, float *scratch,
                      int32_t lane)
{
    struct row_state again;
    row_again(args, lengths, row, kv_head, keys.begin, keys.end, &again);
    __syncwarp();
#pragma unroll
    for (int32_t j = 0; j < DIM / WARP; j++)
        scratch[j * WARP + lane] = again.acc[j];
    if (lane == 0)
        scratch[DIM] = again.largest, scratch[DIM + 1] = again.sum;
    __syncwarp();
}

DEVICE void states_again(const struct weft__attention_device_args *args, const struct place *at,
                         struct rows rows, int32_t tiles, float *scratch, int32_t lane,
                         struct state *state)
{
    const struct keys keys = {max(at->seq.begin + at->tile * KEYS, at->seq.first_key),
                              at->seq.begin + (at->tile + tiles) * KEYS};
#pragma unroll 1
    for (int32_t row = 0; row < rows.count; row++) {
        row_leave(args, at->seq.lengths, row_at(args, rows, row), rows.kv_head, keys, scratch,
                  lane);
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            if (row != 8 * half + lane / 4)
                continue;
#pragma unroll
            for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
                for (int32_t i = 0; i < 2; i++)
                    state->acc[t][2 * half + i] = scratch[8 * t + 2 * (lane % 4) + i];
            state->largest[half] = scratch[DIM];
            state->sum[half] = scratch[DIM + 1];
        }
    }
}

// The end of `count` tiles of an item from the place on: results, a part that is handed on, or one that is kept for a merge.
// scratch: the warp's, of DIM + 2 floats.
DEVICE void item_end(const struct weft__attention_device_args *args, const struct work *work,
                     int32_t count, struct state *state, float *scratch, int32_t warp, int32_t lane,
                     struct merge *merge)
{
    const struct place *const at = &work->at;
    const int32_t number = number_of_block(args);
    const int32_t before = number - holders_of(args, at, merge->share).first;
    const bool whole = count == at->seq.tiles, ends = at->tile + count == at->seq.tiles;
    const bool leads = !ends && before % LED == LED - 1;
    if (state_settle(state, work->rows.count, lane))
        states_again(args, at, work->rows, count, scratch, lane, state);
    if (whole)
        state_finish(args, at->seq.lengths, work->rows, state, lane);
    else
        state_send(place_at(ends || leads ? args->slots : args->handed, number, warp), state,
                   work->rows.count, lane);
    if (whole || (!ends && !leads) || lane > 0)
        return;
    merge->lengths = at->seq.lengths, merge->rows = work->rows, merge->goes_on = leads;
    merge->first = leads ? number - (LED - 1) : number - before;
    merge->led = leads ? 0 : before / LED, merge->others = before % LED;
}

#endif
