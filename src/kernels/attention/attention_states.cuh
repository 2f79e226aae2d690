// SPDX-License-Identifier: MIT
// States of several rows that lie apart become one of each, and results leave: a lane has two columns of every 64 of a row. A
// state is (acc, largest, sum) with weights exp2(score - largest), scores in units of log2.
#ifndef WEFT_KERNELS_ATTENTION_STATES_CUH
#define WEFT_KERNELS_ATTENTION_STATES_CUH

#include "src/kernels/attention/attention_rows.cuh"
#include "src/kernels/cuda/memory.cuh"

// What a warp has of R rows.
template <int R> struct merged_rows {
    float2 value[R][QUERY_PAIRS];
    float largest, sum; // of row lane / S % R
};

template <int R> DEVICE void merged_begin(struct merged_rows<R> *merged)
{
#pragma unroll
    for (int32_t r = 0; r < R; r++)
#pragma unroll
        for (int32_t i = 0; i < QUERY_PAIRS; i++)
            merged->value[r][i] = make_float2(0, 0);
    merged->largest = NEGATIVE_INFINITY, merged->sum = 0;
}

// Adds S states of each row; lane r S + s has (largest, sum) of state s of row r.
template <int R, int S>
DEVICE void merged_add(struct merged_rows<R> *merged, float2 state,
                       const float2 x[R][S][QUERY_PAIRS])
{
    const float most = fmaxf(merged->largest, warp_max(state.x, S));
    const float earlier = weight_of(merged->largest, most), factor = weight_of(state.x, most);
    merged->sum = merged->sum * earlier + warp_sum(factor * state.y, S), merged->largest = most;
#pragma unroll
    for (int32_t r = 0; r < R; r++) {
        float2 *const value = merged->value[r];
        const float before = __shfl_sync(0xffffffffu, earlier, r * S);
#pragma unroll
        for (int32_t i = 0; i < QUERY_PAIRS; i++)
            value[i].x *= before, value[i].y *= before;
#pragma unroll
        for (int32_t s = 0; s < S; s++) {
            const float weight = __shfl_sync(0xffffffffu, factor, r * S + s);
#pragma unroll
            for (int32_t i = 0; i < QUERY_PAIRS; i++) {
                value[i].x = fmaf(weight, x[r][s][i].x, value[i].x);
                value[i].y = fmaf(weight, x[r][s][i].y, value[i].y);
            }
        }
    }
}

// (largest, sum) of row r.
template <int R, int S> DEVICE float2 merged_state(const struct merged_rows<R> *merged, int32_t r)
{
    return make_float2(__shfl_sync(0xffffffffu, merged->largest, r * S),
                       __shfl_sync(0xffffffffu, merged->sum, r * S));
}

// A lane's pairs of a row of up to 128 columns, to another block and from it.
DEVICE void pairs_send(float *to, const float2 value[QUERY_PAIRS])
{
    if (QUERY_PAIRS == 2)
        send_pairs(to, value[0], value[QUERY_PAIRS - 1]);
    else
        send_pair(to, value[0]);
}

DEVICE void pairs_receive(const float *from, float2 value[QUERY_PAIRS])
{
    if (QUERY_PAIRS == 2)
        receive_pairs(from, &value[0], &value[QUERY_PAIRS - 1]);
    else
        receive_pair(from, &value[0]);
}

// A row's results, times `by`, to out[to...].
DEVICE void pairs_store(const struct weft__attention_device_args *args, int64_t to, int32_t lane,
                        const float2 value[QUERY_PAIRS], float by)
{
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        if (HEAD % 64 == 0 || d < HEAD) {
            set_element<WEFT_Y_DTYPE>(args->out, to + d, value[i].x * by);
            set_element<WEFT_Y_DTYPE>(args->out, to + d + 1, value[i].y * by);
        }
    }
}

#endif
