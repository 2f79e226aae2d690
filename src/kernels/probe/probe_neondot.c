// SPDX-License-Identifier: MIT
#include <arm_neon.h>

#include "src/kernels/probe/probe_kernel.h"

weft__probe_fn weft__probe_dot_neondot;
uint64_t weft__probe_dot_neondot(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 12 };
    const int8x16_t bytes = vdupq_n_s8(weft__probe_unit);
    int32x4_t acc[CHAINS];
    (void)args;
    WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = vdupq_n_s32(weft__probe_zero);
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = vdotq_s32(acc[c], bytes, bytes);
    uint64_t sum = 0;
    for (int c = 0; c < CHAINS; c++)
        sum += (uint32_t)vaddvq_s32(acc[c]);
    return sum;
}
