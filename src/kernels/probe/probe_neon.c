// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/probe/probe_fma.h"

PROBE_FMA(neon)

weft__probe_fn weft__probe_read_neon;
uint64_t weft__probe_read_neon(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { LOADS = 16 };
    const char *memory = args->memory;
    uint64x2_t acc[LOADS];
    WEFT__UNROLL for (int i = 0; i < LOADS; i++) acc[i] = vdupq_n_u64(0);
    for (int64_t at = begin; at < end; at += LOADS * 16)
        WEFT__UNROLL for (int i = 0; i < LOADS; i++)
        {
            uint64x2_t word = vld1q_u64((const uint64_t *)(const void *)(memory + at + i * 16));
            acc[i] = vaddq_u64(acc[i], word);
        }
    WEFT__UNROLL for (int i = 1; i < LOADS; i++) acc[0] = vaddq_u64(acc[0], acc[i]);
    return vaddvq_u64(acc[0]);
}

// Without DotProd: products of bytes as 16-bit numbers, added in pairs.
weft__probe_fn weft__probe_dot_neon;
uint64_t weft__probe_dot_neon(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 8 };
    int8x16_t bytes = vdupq_n_s8(weft__probe_unit);
    int32x4_t acc[CHAINS];
    (void)args;
    WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = vdupq_n_s32(weft__probe_zero);
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++)
        {
            __asm__ volatile("" : "+w"(bytes)); // new weights every time
            int16x8_t pairs = vmull_s8(vget_low_s8(bytes), vget_low_s8(bytes));
            acc[c] = vpadalq_s16(acc[c], vmlal_high_s8(pairs, bytes, bytes));
        }
    uint64_t sum = 0;
    for (int c = 0; c < CHAINS; c++)
        sum += (uint32_t)vaddvq_s32(acc[c]);
    return sum;
}
