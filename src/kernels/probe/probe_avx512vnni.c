// SPDX-License-Identifier: MIT
#include <immintrin.h>

#include "src/kernels/probe/probe_kernel.h"

weft__probe_fn weft__probe_dot_avx512vnni;
uint64_t weft__probe_dot_avx512vnni(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 12 };
    const __m512i bytes = _mm512_set1_epi8(weft__probe_unit);
    __m512i acc[CHAINS];
    (void)args;
    WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = _mm512_set1_epi32(weft__probe_zero);
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] =
            _mm512_dpbusd_epi32(acc[c], bytes, bytes);
    uint64_t sum = 0;
    for (int c = 0; c < CHAINS; c++)
        sum += (uint32_t)_mm512_reduce_add_epi32(acc[c]);
    return sum;
}
