// SPDX-License-Identifier: MIT
// The largest logit of a part of a row: grid x parts, y rows.
//
// Constants: X_DTYPE
#include "src/kernels/sample/sample.cuh"

extern "C" __global__ void __launch_bounds__(256)
    weft_sample_best(const struct weft__sample_device_args args)
{
    enum { AT_ONCE = 4 };
    int64_t x0 = blockIdx.y * args.logits_stride;
    const int32_t step = gridDim.x * blockDim.x;
    wide best = 0;
    int any = 0;
    let_next_start(); // which waits for this one
    wait_for_previous();
    for (int64_t first = blockIdx.x * blockDim.x + threadIdx.x; first < args.vocab;
         first += AT_ONCE * step) {
        float x[AT_ONCE]; // asked for before any is looked at; behind the row its first one again
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            x[k] = element<X_DTYPE>(
                args.logits, x0 + (first + k * step < args.vocab ? first + k * step : first));
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++) {
            const int32_t i = (int32_t)(first + k * step < args.vocab ? first + k * step : first);
            any |= x[k] >= -FLOAT_MAX && x[k] <= FLOAT_MAX;
            best = larger(best, rank_of(cleaned(x[k]), i));
        }
    }
    best = block_combine(best, (wide)0, larger);
    any = __syncthreads_or(any);
    // The top bit of an id's complement is always set: it says whether the part has a finite logit.
    if (threadIdx.x == 0)
        args.best[blockIdx.y * gridDim.x + blockIdx.x] = any ? best : best & ~0x80000000ull;
}
