// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/probe/probe_fma.h"

PROBE_FMA(avx512)

weft__probe_fn weft__probe_read_avx512;
uint64_t weft__probe_read_avx512(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { LOADS = 16, AHEAD = 4096 };
    const char *memory = args->memory;
    __m512i acc[LOADS];
    WEFT__UNROLL for (int i = 0; i < LOADS; i++) acc[i] = _mm512_setzero_si512();
    for (int64_t at = begin; at < end; at += LOADS * 64)
        WEFT__UNROLL for (int i = 0; i < LOADS; i++)
        {
            _mm_prefetch(memory + at + i * 64 + AHEAD, _MM_HINT_T0);
            acc[i] = _mm512_add_epi64(acc[i], _mm512_load_si512(memory + at + i * 64));
        }
    WEFT__UNROLL for (int i = 1; i < LOADS; i++) acc[0] = _mm512_add_epi64(acc[0], acc[i]);
    return (uint64_t)_mm512_reduce_add_epi64(acc[0]);
}

// Without VNNI: products of bytes in pairs, then pairs of pairs.
weft__probe_fn weft__probe_dot_avx512;
uint64_t weft__probe_dot_avx512(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 8 };
    __m512i acc[CHAINS], bytes = _mm512_set1_epi8(weft__probe_unit);
    const __m512i shorts = _mm512_set1_epi16(weft__probe_unit);
    (void)args;
    WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = _mm512_set1_epi32(weft__probe_zero);
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++)
        {
            __asm__ volatile("" : "+v"(bytes)); // new weights every time
            __m512i pairs = _mm512_maddubs_epi16(bytes, bytes);
            acc[c] = _mm512_add_epi32(acc[c], _mm512_madd_epi16(pairs, shorts));
        }
    uint64_t sum = 0;
    for (int c = 0; c < CHAINS; c++)
        sum += (uint32_t)_mm512_reduce_add_epi32(acc[c]);
    return sum;
}
