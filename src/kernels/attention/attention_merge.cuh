// SPDX-License-Identifier: MIT
// The end of an item of decode: the states of the block's warps become the result, or the state of a slot, which
// attention_slots.cuh or attention_handed.cuh merge with those of other blocks.
//
// A state is (acc, largest, sum) with weights exp2(score - largest), scores in units of log2.
#ifndef WEFT_KERNELS_ATTENTION_MERGE_CUH
#define WEFT_KERNELS_ATTENTION_MERGE_CUH

#include "src/kernels/attention/attention_acc.cuh"
#include "src/kernels/attention/attention_states.cuh"
#if WEFT_ROUNDED
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#endif

// Leaves the warp's state in shared memory. True if one of the lane's sums is not finite: products in
// parts turn an infinity, and a weight of 0 for a key that a row does not see, into NaN. column0: the first that the warp has.
DEVICE bool state_store(const struct state *state, int32_t warp, int32_t lane, int32_t rows,
                        int32_t column0 = 0)
{
    float nothing = 0; // 0 unless something is not finite
#pragma unroll
    for (int32_t i = 0; i < STATE_EIGHTS; i++) {
        int32_t row = lane / 4 + 8 * i;
        float sum = warp_sum(state->sum[i], 4);
        if (row >= rows)
            continue;
        float *to = shared_state(warp, row, rows);
#pragma unroll
        for (int32_t t = 0; t < STATE_DIM / 8; t++) {
            const float2 x = make_float2(state->acc[t][2 * i], state->acc[t][2 * i + 1]);
#if WEFT_CODES
            to[acc_element(t, 0, lane)] = x.x * WEIGHT_UNIT;
            to[acc_element(t, 1, lane)] = x.y * WEIGHT_UNIT;
#else
            *(float2 *)(to + column0 + acc_element(t, 0, lane)) =
                make_float2(x.x * WEIGHT_UNIT, x.y * WEIGHT_UNIT);
#endif
            nothing += x.x * 0.0f + x.y * 0.0f;
        }
        nothing += sum * 0.0f;
        if (lane % 4 == 0)
            to[DIM] = state->largest[i], to[DIM + 1] = sum * WEIGHT_UNIT;
    }
    return nothing != 0.0f;
}

// Four states more of a row, of these weights. Where weights are exact, apart at first: beside a state that has nearly all the weight, each of
// the others may be below half a unit in the last place, and added one by one all of them would be lost.
DEVICE void four_add(const float weight[4], const float2 x[4][QUERY_PAIRS],
                     float2 value[QUERY_PAIRS])
{
#pragma unroll
    for (int32_t k = 0; k < QUERY_PAIRS; k++) {
        float2 sum = WEFT_PARTS > 1 ? make_float2(0, 0) : value[k];
#pragma unroll
        for (int32_t j = 0; j < 4; j++) {
            sum.x = fmaf(weight[j], x[j][k].x, sum.x);
            sum.y = fmaf(weight[j], x[j][k].y, sum.y);
        }
        value[k].x = WEFT_PARTS > 1 ? value[k].x + sum.x : sum.x;
        value[k].y = WEFT_PARTS > 1 ? value[k].y + sum.y : sum.y;
    }
}

// The states of rows of the item once more, a warp per row. Leaves them as those of warp 0.
DEVICE void states_again(const struct weft__attention_device_args *args, const struct place *at,
                         struct rows rows, int32_t tiles)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP % WARPS, lane = (int32_t)threadIdx.x % WARP;
    for (int32_t i = warp; i < rows.count; i += WARPS) {
        struct row_state again;
        row_again(args, at->seq.lengths, row_at(args, rows, i), rows.kv_head,
                  max(at->seq.begin + at->tile * KEYS, at->seq.first_key),
                  at->seq.begin + (at->tile + tiles) * KEYS, &again);
        for (int32_t w = 0; w < WARPS; w++) {
            float *to = shared_state(w, i, rows.count);
#pragma unroll
            for (int32_t j = 0; j < (HEAD + WARP - 1) / WARP; j++)
                if (HEAD % WARP == 0 || j * WARP + lane < HEAD)
                    to[j * WARP + lane] = w ? 0.0f : again.acc[j];
            if (lane == 0)
                to[DIM] = w ? NEGATIVE_INFINITY : again.largest, to[DIM + 1] = w ? 0.0f : again.sum;
        }
    }
}

static __device__ __noinline__ void item_again(const struct weft__attention_device_args *args,
                                               const struct place *at, struct rows rows,
                                               int32_t tiles)
{
    states_again(args, at, rows, tiles);
    __syncthreads();
}

#if WEFT_ROUNDED
// A head of a rounded row (linear_device.h): sixteen lanes have a group of 32, a lane two neighbours of it.
DEVICE void store_rounded(const struct weft__attention_device_args *args, struct lengths lengths,
                          struct row row, int32_t lane, const float2 value[QUERY_PAIRS], float by)
{
    const int32_t cols = args->num_q_heads * HEAD;
    uint8_t *to = (uint8_t *)args->out +
                  (lengths.first_token + row.token) * weft__linear_rounded_stride(cols);
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane), unit = (row.head * HEAD + d) / 32, c = d % 32;
        const float2 x = make_float2(value[i].x * by, value[i].y * by);
        const float square = warp_sum(fmaf(x.x, x.x, x.y * x.y), 16);
        // as bits, so that NaN is the largest
        const float largest = bits_float(
            warp_max_bits(max(float_bits(x.x) & 0x7fffffffu, float_bits(x.y) & 0x7fffffffu), 16));
        const float factor = round_factor(largest);
        const int32_t a = round_code(x.x, factor), b = round_code(x.y, factor);
        const int32_t sum = warp_sum_int(a + b, 8); // of sixteen columns
        const int32_t second = __shfl_xor_sync(0xffffffffu, sum, 8);
        if (HEAD % 64 != 0 && d >= HEAD)
            continue;
        uint8_t *code = to + unit / 2 * 64 + c % 16 / 4 * 16 + unit % 2 * 8 + c / 16 * 4 + c % 4;
        *(uint16_t *)code = (uint16_t)((uint32_t)(a & 0xff) | (uint32_t)(b & 0xff) << 8);
        if (lane % 16 == 0) {
            *(uint2 *)(to + (cols + 63) / 64 * 64 + unit * 8) = make_uint2(
                float_bits(largest / 127.0f), (uint32_t)second << 16 | ((uint32_t)sum & 0xffffu));
            round_squares(to, cols)[unit] = square;
        }
    }
    // Columns are padded to 64 with zeros: a head of 32 may be the last.
    if (HEAD % 64 != 0 && cols % 64 != 0 && row.head + 1 == args->num_q_heads) {
        round_group(to, cols, cols / 32, lane, 0);
        round_squares(to, cols)[cols / 32] = 0;
    }
}
#endif

DEVICE void store_row(const struct weft__attention_device_args *args, struct lengths lengths,
                      struct row row, int32_t lane, float2 value[QUERY_PAIRS], float by)
{
#if WEFT_ROUNDED
    store_rounded(args, lengths, row, lane, value, by);
    return;
#endif
    pairs_store(args, out_at(args, lengths, row), lane, value, by);
}

#endif
