// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/probe/probe_fma.h"

PROBE_FMA(avx2)

weft__probe_fn weft__probe_read_avx2;
uint64_t weft__probe_read_avx2(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { LOADS = 8, AHEAD = 4096 };
    const char *memory = args->memory;
    __m256i acc[LOADS];
    uint64_t lanes[4];
    WEFT__UNROLL for (int i = 0; i < LOADS; i++) acc[i] = _mm256_setzero_si256();
    for (int64_t at = begin; at < end; at += LOADS * 32)
        WEFT__UNROLL for (int i = 0; i < LOADS; i++)
        {
            if (i % 2 == 0)
                _mm_prefetch(memory + at + i * 32 + AHEAD, _MM_HINT_T0);
            __m256i word = _mm256_load_si256((const __m256i *)(memory + at + i * 32));
            acc[i] = _mm256_add_epi64(acc[i], word);
        }
    WEFT__UNROLL for (int i = 1; i < LOADS; i++) acc[0] = _mm256_add_epi64(acc[0], acc[i]);
    _mm256_storeu_si256((__m256i *)lanes, acc[0]);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

weft__probe_fn weft__probe_dot_avx2;
uint64_t weft__probe_dot_avx2(const weft_probe_args *args, int64_t begin, int64_t end)
{
    enum { CHAINS = 8 };
    __m256i acc[CHAINS], bytes = _mm256_set1_epi8(weft__probe_unit);
    const __m256i shorts = _mm256_set1_epi16(weft__probe_unit);
    uint32_t lanes[CHAINS][8];
    (void)args;
    WEFT__UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = _mm256_set1_epi32(weft__probe_zero);
    for (int64_t step = begin; step < end; step++)
        WEFT__UNROLL for (int c = 0; c < CHAINS; c++)
        {
            __asm__ volatile("" : "+x"(bytes)); // new weights every time
            __m256i pairs = _mm256_maddubs_epi16(bytes, bytes);
            acc[c] = _mm256_add_epi32(acc[c], _mm256_madd_epi16(pairs, shorts));
        }
    uint64_t sum = 0;
    for (int c = 0; c < CHAINS; c++) {
        _mm256_storeu_si256((__m256i *)lanes[c], acc[c]);
        for (int i = 0; i < 8; i++)
            sum += lanes[c][i];
    }
    return sum;
}
