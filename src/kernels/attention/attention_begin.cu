// SPDX-License-Identifier: MIT
// Sets the counters of a run to zero and the places of what is handed on to what they are between runs (attention_device.h), for
// workspaces that come as they are.
#include "src/kernels/attention/attention_device.h"
#include "src/kernels/cuda/memory.cuh"

extern "C" __global__ void
weft_attention_begin(const __grid_constant__ struct weft__attention_begin_args args)
{
    let_next_start();
    wait_for_previous();
    int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < args.num_handed)
        args.handed[i] = 0xffffffffu;
    if (i < args.num_counters)
        args.counters[i] = 0;
}
