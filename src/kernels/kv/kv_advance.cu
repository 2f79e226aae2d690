// SPDX-License-Identifier: MIT
// A batch one token further (kv_device.h): a thread does a sequence.
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/kv/kv_device.h"

extern "C" __global__ void weft_kv_advance(const struct weft__kv_advance_args args)
{
    int32_t s = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    wait_for_previous();
    if (s == 0)
        *args.step += 1;
    if (s >= args.num_seqs)
        return;
    int32_t token = args.cu_q_lens[s], t = args.kv_lens[s];
    if (args.cu_q_lens[s + 1] - token != 1 || t >= args.capacities[s])
        return;
    args.kv_lens[s] = t + 1;
    args.positions[token] = t;
    args.slots[token] =
        weft__kv_slot(args.pages + args.page_starts[s], args.page_size, args.ring_len, t);
}
