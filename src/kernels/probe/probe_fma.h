// SPDX-License-Identifier: MIT
// Chains of f32 multiply-adds in vectors: twelve, which covers a latency of four cycles at up to three a
// cycle and leaves registers for the factors. An ISA file includes this after its vocabulary.
#include "src/kernels/probe/probe_kernel.h"

#define PROBE_FMA(isa)                                                                             \
    weft__probe_fn weft__probe_fma_##isa;                                                          \
    uint64_t weft__probe_fma_##isa(const weft_probe_args *args, int64_t begin, int64_t end)        \
    {                                                                                              \
        enum { CHAINS = 12 };                                                                      \
        vf32 acc[CHAINS], half = vf32_set1(weft__probe_half), one = vf32_set1(weft__probe_one);    \
        (void)args;                                                                                \
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = vf32_set1(2 * weft__probe_one);     \
        for (int64_t step = begin; step < end; step++)                                             \
            WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = vf32_fma(acc[c], half, one);    \
        WEFT__UNROLL for (int c = 1; c < CHAINS; c++) acc[0] = vf32_add(acc[0], acc[c]);           \
        return (uint64_t)(end - begin) * (uint64_t)(vf32_sum(acc[0]) / 2);                         \
    }
