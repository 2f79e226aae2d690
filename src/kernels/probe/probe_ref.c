// SPDX-License-Identifier: MIT
// What the probes compute, one number at a time.
#include "src/base/half.h"
#include "src/kernels/probe/probe_kernel.h"

weft__probe_fn weft__probe_read_ref;
uint64_t weft__probe_read_ref(const weft_probe_args *args, int64_t begin, int64_t end)
{
    uint64_t sum = 0;
    for (int64_t at = begin; at < end; at += (int64_t)sizeof sum) {
        uint64_t word;
        memcpy(&word, (const char *)args->memory + at, sizeof word);
        sum += word;
    }
    return sum;
}

// A link is acc = acc / 2 + 1, which leaves a chain that starts at 2 where it is.
weft__probe_fn weft__probe_fma_ref;
uint64_t weft__probe_fma_ref(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 8 };
    float acc[CHAINS], half = weft__probe_half, one = weft__probe_one, sum = 0;
    (void)args;
    for (int c = 0; c < CHAINS; c++)
        acc[c] = 2 * weft__probe_one;
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = acc[c] * half + one;
    for (int c = 0; c < CHAINS; c++)
        sum += acc[c];
    return (uint64_t)(end - begin) * (uint64_t)(sum / 2);
}

weft__probe_fn weft__probe_dot_ref;
uint64_t weft__probe_dot_ref(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 8 };
    uint64_t acc[CHAINS], sum = 0;
    (void)args;
    for (int c = 0; c < CHAINS; c++)
        acc[c] = (uint64_t)weft__probe_zero;
    for (int64_t step = begin; step < end; step++) {
        int32_t a = weft__probe_unit, b = weft__probe_unit;
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] += (uint64_t)(a * b);
    }
    for (int c = 0; c < CHAINS; c++)
        sum += acc[c];
    return sum;
}

// A link adds the product of two pairs, which is nothing, to a chain that starts at 2.
weft__probe_fn weft__probe_bf16_ref;
uint64_t weft__probe_bf16_ref(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 8 };
    float acc[CHAINS], sum = 0;
    (void)args;
    for (int c = 0; c < CHAINS; c++)
        acc[c] = 2 * weft__probe_one;
    for (int64_t step = begin; step < end; step++) {
        uint32_t a = weft__probe_pair, b = weft__probe_opposite;
        float first = weft__bf16_to_f32((uint16_t)a) * weft__bf16_to_f32((uint16_t)b);
        float second =
            weft__bf16_to_f32((uint16_t)(a >> 16)) * weft__bf16_to_f32((uint16_t)(b >> 16));
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] += first + second;
    }
    for (int c = 0; c < CHAINS; c++)
        sum += acc[c];
    return 2 * (uint64_t)(end - begin) * (uint64_t)(sum / 2);
}
