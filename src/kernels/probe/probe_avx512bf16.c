// SPDX-License-Identifier: MIT
#include <immintrin.h>

#include "src/kernels/probe/probe_kernel.h"

weft__probe_fn weft__probe_bf16_avx512bf16;
uint64_t weft__probe_bf16_avx512bf16(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 12 };
    const __m512bh a = (__m512bh)_mm512_set1_epi32((int)weft__probe_pair);
    const __m512bh b = (__m512bh)_mm512_set1_epi32((int)weft__probe_opposite);
    __m512 acc[CHAINS];
    (void)args;
    WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = _mm512_set1_ps(2 * weft__probe_one);
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = _mm512_dpbf16_ps(acc[c], a, b);
    WEFT__UNROLL for (int c = 1; c < CHAINS; c++) acc[0] = _mm512_add_ps(acc[0], acc[c]);
    return 2 * (uint64_t)(end - begin) * (uint64_t)(_mm512_reduce_add_ps(acc[0]) / 2);
}
