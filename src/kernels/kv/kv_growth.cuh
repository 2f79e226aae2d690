// SPDX-License-Identifier: MIT
// Queries that grow with their position, for softmaxes over many keys to stay as sharp.
#ifndef WEFT_KERNELS_KV_GROWTH_CUH
#define WEFT_KERNELS_KV_GROWTH_CUH

#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/kv/kv_device.h"

// What queries of a position are multiplied by; 1 without the constant GROWS.
DEVICE float query_growth(const struct weft__kv_device_args &args, int32_t position)
{
    if (!GROWS)
        return 1.0f;
    const int64_t steps = ((int64_t)position + 1) / args.growth_length;
    return (float)(1 + (double)args.growth * log1p((double)steps));
}

#endif
