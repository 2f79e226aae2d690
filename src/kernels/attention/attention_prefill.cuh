// SPDX-License-Identifier: MIT
// What the kernels of many queries share: what a block works at, masks and the softmax of a tile in registers, how rows end.
//
// The kernel defines what attention_scores.cuh wants, and WARPS (that multiply), WARP_ROWS = 16 WEFT_M, the rows of each,
// shared_factors(), and by item_place() which item comes when.
#ifndef WEFT_KERNELS_ATTENTION_PREFILL_CUH
#define WEFT_KERNELS_ATTENTION_PREFILL_CUH

#define WEFT_WHOLE 1
#include "src/kernels/attention/attention_scores.cuh"

// What rows of queries have been divided by, where FACTORS says that they have.
DEVICE float *shared_factors();

// What a block works at, in shared memory.
struct item {
    struct sequence seq;
    struct rows rows;
    int32_t first_key, end_key, begin; // seen by one of the rows; of the first tile
    int32_t slices, first_slot, slot;  // that the item is worked at in; of the first, of this one
    int32_t counter;                   // of the item
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

DEVICE bool item_sees(const struct item *item, int32_t key)
{
    return key >= item->first_key && key < item->end_key;
}

enum { SLICE_KEYS = 256 }; // at least: what a slice costs beside its keys is as much

// What a block works at: slice `slice` of item `item`, of up to `slices` each.
struct unit {
    int32_t item, slice, slices;
};

// Leaves an item the keys of one slice, whole tiles. No rows: it has fewer slices than that.
DEVICE void item_take_slice(struct unit unit, struct item *item)
{
    const int32_t tiles = (item->end_key - item->begin + KEYS - 1) / KEYS;
    const int32_t length = max((tiles + unit.slices - 1) / unit.slices, SLICE_KEYS / KEYS);
    item->slices = max((tiles + length - 1) / length, 1);
    item->counter = unit.item, item->first_slot = unit.item * unit.slices;
    item->slot = item->first_slot + unit.slice;
    if (unit.slice >= item->slices)
        item->rows.count = 0;
    item->begin += unit.slice * length * KEYS;
    item->first_key = max(item->first_key, item->begin);
    item->end_key = min(item->end_key, item->begin + length * KEYS);
}

// The item of a place: its keys, and what the rows of each warp see. By a warp, into shared memory.
DEVICE void item_set(const struct weft__attention_device_args *args, const struct place *at,
                     struct unit unit, int32_t lane, struct item *item)
{
    const struct lengths lengths = at->seq.lengths;
    const struct rows rows = rows_of(args, at);
    if (lane == 0)
        item->seq = at->seq, item->rows = rows;
    if (lane < WARPS) {
        const int32_t first = lane * WARP_ROWS, last = min(first + WARP_ROWS, rows.count) - 1;
        const int32_t first_token = row_at(args, rows, first).token;
        const int32_t last_token = row_at(args, rows, max(first, last)).token;
        item->by_all[lane] = keys_by_all(args, lengths, first_token, last_token);
        item->end[lane] = first <= last ? keys_of(args, lengths, last_token).end : 0;
    }
    if (lane > 0)
        return;
    item->end_key = keys_of(args, lengths, row_at(args, rows, rows.count - 1).token).end;
    item->first_key = min(first_key_of(args, lengths, row_at(args, rows, 0).token), item->end_key);
    item->begin = item->first_key / KEYS * KEYS;
    item->slices = 1;
    if (unit.slices > 1)
        item_take_slice(unit, item);
    item->pages = pages_of(args, lengths.seq);
    item->planes[0] = args->k, item->planes[1] = args->v;
    for (int32_t i = 0; i < 2; i++)
        item->planes[i].data = (const uint8_t *)item->planes[i].data +
                               rows.kv_head * item->planes[i].head_stride * BYTES;
}

// Item `index` of the list of all items, if among the scan's sequences; `before` is how many are ahead of theirs. By a warp.
DEVICE bool item_place(const struct weft__attention_device_args *args, struct place *at,
                       int32_t index, const struct scan *scan, int32_t before, int32_t lane);

// Slice `index` of the list of all slices of items, and in how many every item is worked at (attention_device.h). False behind
// the last. By a warp: what the sequences have is looked for by one copy of the text, and once where they are one group.
DEVICE bool unit_at(const struct weft__attention_device_args *args, int32_t lane, int32_t index,
                    struct unit *unit, struct place *at)
{
    const int32_t groups = max((args->num_seqs + WARP - 1) / WARP, 1);
    int32_t items = 0, before = 0;
    struct scan scan;
#pragma unroll 1
    for (int32_t i = 0; i < 2 * groups; i++) {
        const bool counts = i < groups;
        if (counts || groups > 1)
            scan = scan_of(args, counts ? i : i - groups, lane);
        if (counts) {
            items += scan_total(&scan);
            if (i + 1 < groups && 2 * items <= args->slice_blocks)
                continue;
            unit->slices = items > 0 ? max(args->slice_blocks / items, 1) : 1;
            unit->item = index / unit->slices, unit->slice = index % unit->slices;
            i = groups - 1; // from the first sequences on again
            if (groups > 1)
                continue;
        }
        if (item_place(args, at, unit->item, &scan, before, lane))
            return true;
        before += scan_total(&scan);
        if (groups == 1)
            break;
    }
    return false;
}

// --- scores and weights ---------------------------------------------------------------------------

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

// What the bias of a row's scores follows from: its own key, and its head's slope in units of log2.
struct biased {
    int32_t own;
    float slope;
};

// Of the lane's rows. Asked for before products are waited for: slopes come from memory.
DEVICE void biased_rows(const struct weft__attention_device_args *args, const struct item *item,
                        int32_t warp, int32_t lane, struct biased biased[WEFT_M][2])
{
#pragma unroll
    for (int32_t m = 0; WEFT_ALIBI && m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const int32_t at = warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half;
            const struct row row = row_at(args, item->rows, min(at, item->rows.count - 1));
            biased[m][half].own = item->seq.lengths.kv_len - item->seq.lengths.q_len + row.token;
            biased[m][half].slope = slope_of(args, row.head) * LOG2_E;
        }
}

// Takes the bias off the scores of sixteen rows. Distances are whole floats: one conversion a half, not one a score.
DEVICE void scores_bias(const struct biased biased[2], int32_t key0, int32_t lane,
                        float score[KEYS / 8][4])
{
#pragma unroll
    for (int32_t half = 0; half < 2; half++) {
        const float far = (float)(biased[half].own - key0 - 2 * (lane % 4));
#pragma unroll
        for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++)
                score[t][2 * half + i] = fmaf(-biased[half].slope, fabsf(far - (float)(8 * t + i)),
                                              score[t][2 * half + i]);
    }
}

// Scores as unit_of() wants them: soft-cap and bias done, or negated where the scale is below 0.
DEVICE void tile_prepare(const struct weft__attention_device_args *args,
                         const struct biased biased[WEFT_M][2], int32_t key0, int32_t warp,
                         int32_t lane, float score[WEFT_M][KEYS / 8][4])
{
    if (!SCORES_PREPARED && args->scale >= 0)
        return;
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++) {
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const int32_t at = warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half;
            const float factor = !SCORES_PREPARED ? -1.0f : FACTORS ? shared_factors()[at] : 1.0f;
#pragma unroll
            for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
                for (int32_t i = 2 * half; i < 2 * half + 2; i++)
                    score[m][t][i] *= factor;
        }
        if (SCORES_PREPARED)
            scores_cap<KEYS / 8, 4>(args, score[m]);
        if (WEFT_ALIBI)
            scores_bias(biased[m], key0, lane, score[m]);
    }
}

// The largest scores of a tile: where one is more than `slack` ahead of what weights are measured against, that follows,
// the sum too, and factor receives what acc is multiplied by. The same answer in every lane of a warp.
DEVICE bool largest_follow(const struct weft__attention_device_args *args, int32_t warp,
                           int32_t lane, struct state *state,
                           const float score[WEFT_M][KEYS / 8][4], float factor[WEFT_M][2],
                           float slack = SLACK)
{
    float most[WEFT_M][2];
    bool follows = false;
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            float of[2] = {score[m][0][2 * half], score[m][0][2 * half + 1]}; // two chains
#pragma unroll
            for (int32_t t = 1; t < KEYS / 8; t++)
#pragma unroll
                for (int32_t i = 0; i < 2; i++)
                    of[i] = fmaxf(of[i], score[m][t][2 * half + i]);
            most[m][half] = fmaxf(of[0], of[1]);
            const float unit = unit_of(args, warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half);
            most[m][half] = warp_max(most[m][half], 4) * unit;
            follows |= most[m][half] > state->largest[m][half] + slack;
        }
    if (!__any_sync(0xffffffffu, follows))
        return false;
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const float largest = fmaxf(state->largest[m][half], most[m][half]);
            factor[m][half] = weight_of(state->largest[m][half], largest);
            state->largest[m][half] = largest, state->sum[m][half] *= factor[m][half];
        }
    return true;
}

DEVICE void acc_follow(struct state *state, const float factor[WEFT_M][2])
{
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 4; i++)
                state->acc[m][t][i] *= factor[m][i / 2];
}

// Scores of half the rows become weights exp2(unit score + from); their sum.
DEVICE float half_weights(float score[KEYS / 8][4], int32_t half, float unit, float from)
{
    // of the tile: many equal numbers added one by one are off in one direction; two chains
    float sum[2] = {0, 0};
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++) {
            float *const x = &score[t][2 * half + i];
            *x = weight_exp2(fmaf(*x, unit, from));
            sum[i] += *x;
        }
    return sum[0] + sum[1];
}

// Scores become weights exp2(score - largest).
DEVICE void tile_weights(const struct weft__attention_device_args *args, int32_t warp, int32_t lane,
                         struct state *state, float score[WEFT_M][KEYS / 8][4])
{
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const float unit = unit_of(args, warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half);
            const float largest = state->largest[m][half];
            // a row that has seen nothing: weights of 0, not of NaN
            const float from = largest == NEGATIVE_INFINITY ? 0.0f : WEIGHT_OFFSET - largest;
            state->sum[m][half] += half_weights(score[m], half, unit, from);
        }
}

// --- results --------------------------------------------------------------------------------------

// Do all rows of results begin at multiples of 16 bytes, and are they whole 32s of columns?
DEVICE bool rows_are_wide(const struct weft__attention_device_args *args)
{
    const int64_t strides = args->out_token_stride | args->out_head_stride;
    return HEAD % 32 == 0 && (uint64_t)args->out % 16 == 0 && strides % 8 == 0;
}

// Four lanes hold word i of eights 0 to 3 each: lane i gets all words of eight i.
DEVICE void words_trade(uint32_t word[4], int32_t lane)
{
    const bool odd = lane & 1, upper = lane & 2;
#pragma unroll
    for (int32_t i = 0; i < 4; i += 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? word[i] : word[i + 1], 1);
        word[i] = odd ? other : word[i], word[i + 1] = odd ? word[i + 1] : other;
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + 2], 2);
        word[i] = upper ? other : word[i], word[i + 2] = upper ? word[i + 2] : other;
    }
}

// A row of results of which four lanes hold two columns of every eight: `x`, times `by`; it begins at element `at`.
// `wide`: rows_are_wide(). Called by whole warps, of whose rows those that exist are stored.
DEVICE void row_store(const struct weft__attention_device_args *args, int64_t at, bool exists,
                      bool wide, int32_t lane, const float x[DIM / 8][4], int32_t half, float by)
{
    const int32_t quarter = lane % 4;
    if (!wide) {
#pragma unroll
        for (int32_t t = 0; t < HEAD / 8; t++)
#pragma unroll
            for (int32_t i = 0; i < 2; i++)
                if (exists)
                    set_element<WEFT_Y_DTYPE>(args->out, at + 8 * t + 2 * quarter + i,
                                              x[t][2 * half + i] * by);
        return;
    }
#if WEFT_Y_DTYPE == 1
#pragma unroll
    for (int32_t t = 0; t < HEAD / 8; t++)
        if (exists)
            *(float2 *)((float *)args->out + at + 8 * t + 2 * quarter) =
                make_float2(x[t][2 * half] * by, x[t][2 * half + 1] * by);
#else
#pragma unroll
    for (int32_t t = 0; t < HEAD / 8; t += 4) {
        uint32_t word[4];
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            word[i] =
                two_narrow<WEFT_Y_DTYPE>(x[t + i][2 * half] * by, x[t + i][2 * half + 1] * by);
        words_trade(word, lane);
        if (exists)
            *(uint4 *)((uint16_t *)args->out + at + 8 * (t + quarter)) =
                make_uint4(word[0], word[1], word[2], word[3]);
    }
#endif
}

// Where the state of a slice of a row goes: a slot is acc of ROWS rows, then (largest, sum) of each.
DEVICE float *slot_acc(const struct weft__attention_device_args *args, int32_t slot, int32_t row)
{
    return args->slots + (int64_t)slot * (ROWS * (DIM + 2)) + row * DIM;
}

DEVICE float2 *slot_sum(const struct weft__attention_device_args *args, int32_t slot, int32_t row)
{
    return (float2 *)slot_acc(args, slot, ROWS) + row;
}

// The warp's rows once more, one by one.
static __device__ __noinline__ void rows_again(const struct weft__attention_device_args *args,
                                               const struct item *item)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    for (int32_t i = 0; i < WARP_ROWS && warp * WARP_ROWS + i < item->rows.count; i++) {
        const int32_t own = warp * WARP_ROWS + i;
        const struct row row = row_at(args, item->rows, own);
        struct row_state again;
        row_again(args, item->seq.lengths, row, item->rows.kv_head, item->first_key, item->end_key,
                  &again);
        if (item->slices > 1 && lane == 0)
            *slot_sum(args, item->slot, own) = make_float2(again.largest, again.sum);
        const float by = item->slices > 1 ? 1.0f
                                          : row_end(args, item->seq.lengths, row, again.largest,
                                                    again.sum, lane == 0);
        const int64_t at = out_at(args, item->seq.lengths, row);
#pragma unroll
        for (int32_t j = 0; j < (HEAD + WARP - 1) / WARP; j++) {
            const int32_t d = j * WARP + lane;
            if (HEAD % WARP != 0 && d >= HEAD)
                continue;
            if (item->slices > 1)
                slot_acc(args, item->slot, own)[d] = again.acc[j];
            else
                set_element<WEFT_Y_DTYPE>(args->out, at + d, again.acc[j] * by);
        }
    }
}

// 0 unless the sum of a row's weights is not finite; nor may it be far below what weights are measured against, which ALiBi's first
// tile only guesses (bias_ahead()): they would have lost bits, or all of them.
DEVICE float sum_nothing(const struct state *state, int32_t m, int32_t half, float sum)
{
    const float least = WEIGHT_EXPONENT ? 0x1p-10f : 0x1p-60f;
    const bool lost =
        WEFT_ALIBI && state->largest[m][half] != NEGATIVE_INFINITY && sum * WEIGHT_UNIT < least;
    return lost ? 1.0f : sum * 0.0f;
}

// The end of a row that a lane has a part of: where its results go and what acc is multiplied by. nothing: 0 unless its sum is not
// one to go by.
struct closed {
    int64_t at;
    float by, nothing;
    bool exists;
};

DEVICE struct closed row_close(const struct weft__attention_device_args *args,
                               const struct item *item, const struct state *state, int32_t warp,
                               int32_t lane, int32_t m, int32_t half)
{
    struct closed row;
    const int32_t at = warp * WARP_ROWS + 16 * m + lane / 4 + 8 * half;
    row.exists = at < item->rows.count;
    const float sum = warp_sum(state->sum[m][half], 4);
    const struct row own = row_at(args, item->rows, row.exists ? at : 0);
    row.at = out_at(args, item->seq.lengths, own);
    row.by = WEIGHT_UNIT * row_end(args, item->seq.lengths, own, state->largest[m][half],
                                   sum * WEIGHT_UNIT, row.exists && lane % 4 == 0);
    row.nothing = sum_nothing(state, m, half, sum);
    return row;
}

// 0 unless a number of the row is not finite.
DEVICE float row_nothing(const struct closed *row, const float acc[DIM / 8][4], int32_t half)
{
    float infinite[2] = {row->nothing, 0};
#pragma unroll
    for (int32_t t = 0; t < DIM / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++)
            infinite[i] = fmaf(acc[t][2 * half + i], 0.0f, infinite[i]);
    return row->exists ? infinite[0] + infinite[1] : 0;
}

// Stores the warp's rows; those whose numbers are not finite are computed again.
DEVICE void rows_finish(const struct weft__attention_device_args *args, const struct item *item,
                        const struct state *state, int32_t warp, int32_t lane)
{
    const bool wide = rows_are_wide(args);
    float nothing = 0;
#pragma unroll
    for (int32_t m = 0; m < WEFT_M; m++)
#pragma unroll
        for (int32_t half = 0; half < 2; half++) {
            const struct closed row = row_close(args, item, state, warp, lane, m, half);
            nothing += row_nothing(&row, state->acc[m], half);
            row_store(args, row.at, row.exists, wide, lane, state->acc[m], half, row.by);
            asm volatile("" ::: "memory"); // one row after the other: registers
        }
    if (__any_sync(0xffffffffu, nothing != 0.0f))
        rows_again(args, item);
}

#endif
