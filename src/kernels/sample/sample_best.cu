// SPDX-License-Identifier: MIT
// The largest logit of a part of a row: grid x parts, y rows.
//
// Constants: X_DTYPE
#include "src/kernels/sample/sample.cuh"

extern "C" __global__ void __launch_bounds__(256)
    weft_sample_best(const struct weft__sample_device_args args)
{
    int64_t x0 = blockIdx.y * args.logits_stride;
    wide best = 0;
    int any = 0;
    wait_for_previous();
    let_next_start();
    for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < args.vocab;
         i += gridDim.x * blockDim.x) {
        float x = element<X_DTYPE>(args.logits, x0 + i);
        any |= x >= -FLOAT_MAX && x <= FLOAT_MAX;
        best = larger(best, rank_of(cleaned(x), i));
    }
    best = block_combine(best, (wide)0, larger);
    any = __syncthreads_or(any);
    // The top bit of an id's complement is always set: it says whether the part has a finite logit.
    if (threadIdx.x == 0)
        args.best[blockIdx.y * gridDim.x + blockIdx.x] = any ? best : best & ~0x80000000ull;
}
