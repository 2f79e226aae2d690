// SPDX-License-Identifier: MIT
// A KV head whose keys several clusters share: each block leaves the state of its part in a place of its own, and the last
// cluster merges them, row r by block r modulo WEFT_SPLITS, 32 columns a warp. So the text is short, and what a block does is a
// fraction of what attention_handed.cuh asks of one. Words of a place say by themselves whether they are there, as they do in that
// file.
//
//      place: float acc[ROWS][DIM], (largest, sum)[ROWS]
//
// A block waits for blocks of lower numbers, which start before it, and for those of its own cluster, which start with it.
//
// The kernel defines what attention_merge.cuh wants; WEFT_HEAD_DIM is a multiple of 32 and at most 128.
#ifndef WEFT_KERNELS_ATTENTION_GATHER_CUH
#define WEFT_KERNELS_ATTENTION_GATHER_CUH

#include "src/kernels/attention/attention_merge.cuh"
#include "src/kernels/attention/attention_places.cuh"

enum {
    PIECES = HEAD / 32, // of a row
    GATHERED_FLOATS = ROWS * (DIM + 2),
    BLOCKS = WEFT_CLUSTERS * WEFT_SPLITS, // of a KV head
    EIGHTH = WARP / 4,                    // places of 32 that a lane reads
};
DEVICE float *gathered_state(float *place, int32_t row)
{
    return place + ROWS * DIM + 2 * row;
}

// The states of the block's warps become one, which leaves: four columns of a row a thread.
DEVICE void state_send(struct rows rows, float *place)
{
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < rows.count * (DIM / 4); i += WARPS * WARP) {
        const int32_t row = i / (DIM / 4), d = i % (DIM / 4) * 4;
        float largest = NEGATIVE_INFINITY, sum = 0;
        float4 value = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++)
            largest = fmaxf(largest, shared_state(w, row, rows.count)[DIM]);
#pragma unroll
        for (int32_t w = 0; w < WARPS; w++) {
            const float *state = shared_state(w, row, rows.count);
            const float factor = weight_of(state[DIM], largest);
            const float4 x = *(const float4 *)(state + d);
            sum += factor * state[DIM + 1];
            value.x += factor * x.x, value.y += factor * x.y;
            value.z += factor * x.z, value.w += factor * x.w;
        }
        send_pairs(place + row * DIM + d, pair_of(make_float2(value.x, value.y)),
                   pair_of(make_float2(value.z, value.w)));
        if (d == 0)
            send_pair(gathered_state(place, row), pair_of(make_float2(largest, sum)));
    }
}

// 32 columns of a row, as a warp has them: lane l those from 4 (l % 8) on, of every fourth place.
struct piece {
    float value[4];
    float largest, sum; // sum: of this lane's places
};

// What a lane reads of up to 32 places: (largest, sum) of one, its four columns of every fourth.
struct parts {
    float2 state, x[EIGHTH][2];
};

// Asks for what `count` places, from `place` on, have of columns `d`.. of a row, until all of it is there.
DEVICE void parts_receive(float *place, int32_t count, int32_t row, int32_t d, int32_t lane,
                          struct parts *parts)
{
    const float *const states = gathered_state(place + lane * GATHERED_FLOATS, row);
    const float *const columns = place + lane / 8 * GATHERED_FLOATS + row * DIM + d + lane % 8 * 4;
    bool waits;
    parts->state = lane < count ? no_pair() : make_float2(NEGATIVE_INFINITY, 0);
#pragma unroll
    for (int32_t k = 0; k < EIGHTH; k++)
        parts->x[k][0] = parts->x[k][1] = 4 * k + lane / 8 < count ? no_pair() : make_float2(0, 0);
    do {
        if (!is_there(parts->state))
            receive_pair(states, &parts->state);
#pragma unroll
        for (int32_t k = 0; k < EIGHTH; k++)
            if (!is_there(parts->x[k][0]) | !is_there(parts->x[k][1]))
                receive_pairs(columns + 4 * k * GATHERED_FLOATS, &parts->x[k][0], &parts->x[k][1]);
        waits = !is_there(parts->state);
#pragma unroll
        for (int32_t k = 0; k < EIGHTH; k++)
            waits |= !is_there(parts->x[k][0]) | !is_there(parts->x[k][1]);
    } while (__any_sync(0xffffffffu, waits));
}

// Adds them, and leaves the columns of the places as they are between launches.
DEVICE void piece_add(float *place, int32_t count, int32_t row, int32_t d, int32_t lane,
                      struct piece *piece)
{
    float *const columns = place + lane / 8 * GATHERED_FLOATS + row * DIM + d + lane % 8 * 4;
    struct parts parts;
    parts_receive(place, count, row, d, lane, &parts);
    const float most = fmaxf(piece->largest, warp_max(parts.state.x, 32));
    const float earlier = weight_of(piece->largest, most), factor = weight_of(parts.state.x, most);
    piece->sum = piece->sum * earlier + factor * parts.state.y, piece->largest = most;
#pragma unroll
    for (int32_t i = 0; i < 4; i++)
        piece->value[i] *= earlier;
#pragma unroll
    for (int32_t k = 0; k < EIGHTH; k++) {
        const float weight = __shfl_sync(0xffffffffu, factor, 4 * k + lane / 8);
        const float2 *const x = parts.x[k];
        piece->value[0] = fmaf(weight, x[0].x, piece->value[0]);
        piece->value[1] = fmaf(weight, x[0].y, piece->value[1]);
        piece->value[2] = fmaf(weight, x[1].x, piece->value[2]);
        piece->value[3] = fmaf(weight, x[1].y, piece->value[3]);
        if (4 * k + lane / 8 < count)
            send_pairs(columns + 4 * k * GATHERED_FLOATS, no_pair(), no_pair());
    }
}

// Columns `d`.. of a row leave: of the four lanes that have parts of the same four, each stores one.
DEVICE void piece_end(const struct weft__attention_device_args *args, struct lengths lengths,
                      struct row row, int32_t d, int32_t lane, struct piece *piece)
{
#pragma unroll
    for (int32_t j = 0; j < 4; j++) {
        piece->value[j] += __shfl_xor_sync(0xffffffffu, piece->value[j], 8);
        piece->value[j] += __shfl_xor_sync(0xffffffffu, piece->value[j], 16);
    }
    const float sum = warp_sum(piece->sum, 32);
    const float by = row_end(args, lengths, row, piece->largest, sum, d == 0 && lane == 0);
    const int32_t j = lane / 8;
    const float even = j & 2 ? piece->value[2] : piece->value[0];
    const float odd = j & 2 ? piece->value[3] : piece->value[1];
    set_element<WEFT_Y_DTYPE>(args->out, out_at(args, lengths, row) + d + lane % 8 * 4 + j,
                              (j & 1 ? odd : even) * by);
}

// The last cluster: results of the rows that are the block's, from `count` places, the first of the KV head.
DEVICE void rows_gather(const struct weft__attention_device_args *args, struct lengths lengths,
                        struct rows rows, float *places, int32_t count, int32_t rank, int32_t warp,
                        int32_t lane)
{
#pragma unroll 1
    for (int32_t i = warp; rank + i / PIECES * WEFT_SPLITS < rows.count; i += WARPS) {
        const int32_t row = rank + i / PIECES * WEFT_SPLITS, d = i % PIECES * 32;
        struct piece piece = {{}, NEGATIVE_INFINITY, 0};
#pragma unroll 1
        for (int32_t first = 0; first < count; first += WARP)
            piece_add(places + first * GATHERED_FLOATS, min(count - first, (int32_t)WARP), row, d,
                      lane, &piece);
        piece_end(args, lengths, row_at(args, rows, row), d, lane, &piece);
    }
    __syncthreads(); // warps have read states of each other's pieces
#pragma unroll 1
    for (int32_t row = rank; row < rows.count; row += WEFT_SPLITS)
        for (int32_t i = (int32_t)threadIdx.x; i < count; i += WARPS * WARP)
            send_pair(gathered_state(places + i * GATHERED_FLOATS, row), no_pair());
}

#endif
