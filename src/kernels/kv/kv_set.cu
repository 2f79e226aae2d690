// SPDX-License-Identifier: MIT
// A batch set from arrays of the device (kv_device.h), in two launches: lengths and where every list of pages
// begins, by one block; then lists, positions and slots, a block per sequence and one for what is left. Whatever the
// arrays hold, nothing is written beyond the batch's own.
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/kv/kv_device.h"

enum { LENGTHS_THREADS = 1024 }; // of the block that adds up

DEVICE int32_t capacity_of(const struct weft__kv_set_args &args, int32_t s)
{
    int32_t keys = args.kv_lens[s], most = args.kv_capacities ? args.kv_capacities[s] : keys;
    most = most < keys ? keys : most;
    most = most < 0 ? 0 : most;
    return most > args.max_kv_len ? args.max_kv_len : most;
}

extern "C" __global__ void __launch_bounds__(LENGTHS_THREADS)
    weft_kv_set_lengths(const struct weft__kv_set_args args)
{
    __shared__ int32_t sums[LENGTHS_THREADS];
    int32_t thread = (int32_t)threadIdx.x;
    int32_t share = (args.num_seqs + LENGTHS_THREADS - 1) / LENGTHS_THREADS;
    int32_t begin = thread * share, end = begin + share;
    begin = begin < args.num_seqs ? begin : args.num_seqs;
    end = end < args.num_seqs ? end : args.num_seqs;
    wait_for_previous();
    if (thread == 0)
        *args.step += 1;
    int32_t sum = 0;
    for (int32_t s = begin; s < end; s++)
        sum += weft__kv_pages(capacity_of(args, s), args.page_size, args.ring_len);
    sums[thread] = sum;
    __syncthreads();
    for (int32_t step = 1; step < LENGTHS_THREADS;
         step *= 2) { // sums of all threads up to this one
        int32_t left = thread >= step ? sums[thread - step] : 0;
        __syncthreads();
        sums[thread] += left;
        __syncthreads();
    }
    int32_t at = sums[thread] - sum;
    for (int32_t s = begin; s < end; s++) {
        int32_t capacity = capacity_of(args, s);
        args.own_cu_q_lens[s] = args.cu_q_lens[s];
        args.own_kv_lens[s] = args.kv_lens[s];
        args.capacities[s] = capacity;
        args.page_starts[s] = at < args.max_pages ? at : args.max_pages;
        at += weft__kv_pages(capacity, args.page_size, args.ring_len);
    }
    if (thread == LENGTHS_THREADS - 1) {
        args.own_cu_q_lens[args.num_seqs] = args.cu_q_lens[args.num_seqs];
        args.page_starts[args.num_seqs] = at < args.max_pages ? at : args.max_pages;
    }
}

extern "C" __global__ void weft_kv_set_tokens(const struct weft__kv_set_args args)
{
    int32_t s = (int32_t)blockIdx.x, thread = (int32_t)threadIdx.x, threads = (int32_t)blockDim.x;
    wait_for_previous();
    if (s == args.num_seqs) { // tokens of no sequence
        int32_t known = args.own_cu_q_lens[s];
        for (int32_t i = (known < 0 ? 0 : known) + thread; i < args.num_tokens; i += threads) {
            args.positions[i] = 0;
            args.slots[i] = -1;
        }
        return;
    }
    int32_t first = args.page_starts[s], count = args.page_starts[s + 1] - first;
    int32_t begin = args.own_cu_q_lens[s], end = args.own_cu_q_lens[s + 1];
    int32_t keys = args.own_kv_lens[s], row = args.seq_rows ? args.seq_rows[s] : s;
    const int32_t *list =
        args.page_lists + (args.list_starts ? args.list_starts[row] : row * args.page_table_stride);
    for (int32_t i = thread; i < count; i += threads)
        args.pages[first + i] = list[i];
    int32_t kept = args.ring_len ? args.ring_len : args.max_kv_len; // of keys that t may name
    for (int32_t i = (begin < 0 ? 0 : begin) + thread; i < end && i < args.num_tokens;
         i += threads) {
        int32_t t = keys - end + i;
        bool known = t >= 0 && t < args.max_kv_len && (t % kept) / args.page_size < count;
        args.positions[i] = args.given_positions ? args.given_positions[i] : t < 0 ? 0 : t;
        args.slots[i] = args.given_slots ? args.given_slots[i]
                        : known          ? weft__kv_slot(list, args.page_size, args.ring_len, t)
                                         : -1;
    }
}
