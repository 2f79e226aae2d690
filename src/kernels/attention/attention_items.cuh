// SPDX-License-Identifier: MIT
// The rows of an item, where their queries and results lie, and how a row and an item end.
#ifndef WEFT_KERNELS_ATTENTION_ITEMS_CUH
#define WEFT_KERNELS_ATTENTION_ITEMS_CUH

#include "src/base/half.h"
#include "src/kernels/attention/attention_divide.cuh"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"

// The rows of an item: query row R of the sequence is token R / group, head R % group of the KV head.
struct rows {
    int32_t first, count; // R of row 0; rows that exist, up to ROWS
    int32_t kv_head;
};

// A row: its query's number in the sequence, its query head.
struct row {
    int32_t token, head;
};

DEVICE struct row row_at(const struct weft__attention_device_args *args, struct rows rows,
                         int32_t row)
{
    const int32_t at = rows.first + row;
#if WEFT_CLUSTERS
    if (at < args->group_size) { // a token's: a division lies between the last key and the end
        const struct row of_first = {0, rows.kv_head * args->group_size + at};
        return of_first;
    }
#endif
    struct row found = {at / args->group_size,
                        rows.kv_head * args->group_size + at % args->group_size};
    return found;
}

DEVICE struct rows rows_of(const struct weft__attention_device_args *args, const struct place *at)
{
    struct rows rows;
    rows.kv_head = at->kv_head;
    rows.first = at->row_tile * ROWS;
    int32_t rest = at->seq.lengths.q_len * args->group_size - rows.first;
    rows.count = rest < ROWS ? rest : ROWS;
    return rows;
}

DEVICE int64_t query_at(const struct weft__attention_device_args *args, struct lengths lengths,
                        struct row row)
{
    return (lengths.first_token + row.token) * args->q_token_stride +
           row.head * args->q_head_stride;
}

// What the numbers of a row's query are multiplied by.
DEVICE float query_scale(const struct weft__attention_device_args *args, struct lengths lengths,
                         struct row row)
{
    if (WEFT_X_DTYPE <= DTYPE_BF16 || !args->q_scales)
        return 1.0f;
    return args->q_scales[(lengths.first_token + row.token) * args->q_scale_token_stride +
                          row.head * args->q_scale_head_stride];
}

DEVICE int64_t scale_at(const struct weft__attention_device_scales *scales, int32_t seq,
                        int32_t page, int32_t kv_head, int32_t slot)
{
    return seq * scales->seq_stride + page * scales->page_stride + kv_head * scales->head_stride +
           slot * scales->token_stride;
}

// Element `i` of the queries.
DEVICE float query_number(const struct weft__attention_device_args *args, int64_t i)
{
    if constexpr (WEFT_X_DTYPE == 4)
        return weft__fp8_e4m3_to_f32(((const uint8_t *)args->q)[i]);
    else if constexpr (WEFT_X_DTYPE == 5)
        return weft__fp8_e5m2_to_f32(((const uint8_t *)args->q)[i]);
    else
        return element<WEFT_X_DTYPE>(args->q, i);
}

DEVICE int64_t out_at(const struct weft__attention_device_args *args, struct lengths lengths,
                      struct row row)
{
    return (lengths.first_token + row.token) * args->out_token_stride +
           row.head * args->out_head_stride;
}

// The end of a row whose state is (largest, sum): joins the sink, stores LSE, returns what acc is multiplied by.
DEVICE float row_end(const struct weft__attention_device_args *args, struct lengths lengths,
                     struct row row, float largest, float sum, bool stores)
{
    const float weight = sink_join(args, row.head, &largest, &sum);
    if (args->lse && stores)
        args->lse[(int64_t)(lengths.first_token + row.token) * args->num_q_heads + row.head] =
            sum == 0 ? NEGATIVE_INFINITY : (largest + log2f(sum)) * LN_2;
    return sum == 0 ? 0.0f : weight / sum;
}

// True for the block that leaves the last state of an item. The barriers make the other threads' stores
// part of what the atomic releases, and its acquire part of what they see.
DEVICE bool item_last(uint32_t *counter, uint32_t parts)
{
    __shared__ uint32_t ticket;
    __syncthreads();
    if (threadIdx.x == 0)
        ticket = atomic_count_ordered(counter, parts);
    __syncthreads();
    return ticket + 1 == parts;
}

#endif
