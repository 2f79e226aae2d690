// SPDX-License-Identifier: MIT
// bf16 to 12 bits (linear_packed_bf16.h), a block of rows at a time.
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed_bf16.h"

static void count(const struct weft__codes_block *block, uint32_t counts[WEFT__CODES_COUNTS])
{
    enum {
        APART = 4
    }; // neighbours often have one exponent: an addition would wait for the one before
    uint32_t some[APART][WEFT__CODES_COUNTS] = {{0}};
    for (int64_t r = 0; r < block->rows; r++) {
        const unsigned char *w = block->weight + r * block->stride_bytes;
        for (int64_t i = 0; i < block->cols; i += APART, w += 2 * APART) {
            uint64_t four;
            memcpy(&four, w, sizeof four);
            some[0][four >> 7 & 0xff]++;
            some[1][four >> 23 & 0xff]++;
            some[2][four >> 39 & 0xff]++;
            some[3][four >> 55 & 0xff]++;
        }
    }
    for (int e = 0; e < WEFT__CODES_COUNTS; e++)
        counts[e] = some[0][e] + some[1][e] + some[2][e] + some[3][e];
}

// The codes of 32 words, in words.
WEFT__INLINE __m512i codes_of(__m512i words, const __m512i codes[4])
{
    const __m512i e = _mm512_and_si512(_mm512_srli_epi16(words, 7), _mm512_set1_epi16(0xff));
    const __m512i low = _mm512_permutex2var_epi8(codes[0], e, codes[1]),
                  high = _mm512_permutex2var_epi8(codes[2], e, codes[3]);
    const __m512i code = _mm512_mask_blend_epi8(_mm512_movepi8_mask(e), low, high);
    return _mm512_and_si512(code, _mm512_set1_epi16(0xff));
}

// Puts the weights of a group that have no code into the list.
static struct weft__codes_other *put_others(struct weft__codes_other *to, uint32_t which, int64_t k,
                                            const unsigned char *w)
{
    for (; which; which &= which - 1) {
        const int i = __builtin_ctz(which);
        *to = (struct weft__codes_other){.col = (uint32_t)(k + i)};
        memcpy(&to->weight, w + 2 * i, sizeof to->weight);
        to++;
    }
    return to;
}

// 128 columns from k on.
WEFT__INLINE struct weft__codes_other *put_unit(unsigned char *to, const unsigned char *w,
                                                int64_t k, const __m512i codes[4],
                                                struct weft__codes_other *others)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i kept = _mm512_set1_epi16((short)0x807f);
    __m512i all = _mm512_setzero_si512(), bytes[4];
    WEFT__UNROLL for (int g = 0; g < 4; g++)
    {
        const unsigned char *from = w + 2 * (k + 32 * g);
        const __m512i words = _mm512_loadu_si512(from), code = codes_of(words, codes);
        const __mmask32 other = _mm512_cmpeq_epi16_mask(code, _mm512_set1_epi16(WEFT__CODES_NONE));
        if (other)
            others = put_others(others, other, k + 32 * g, from);
        const __m512i there = _mm512_and_si512(words, kept);
        bytes[g] = _mm512_permutexvar_epi16(
            order, _mm512_mask_mov_epi16(there, other, _mm512_setzero_si512()));
        all = _mm512_or_si512(
            all, _mm512_slli_epi16(
                     _mm512_permutexvar_epi16(order, _mm512_and_si512(code, _mm512_set1_epi16(15))),
                     4u * (unsigned)g));
    }
    _mm512_store_si512(to, all);
    WEFT__UNROLL for (int h = 0; h < 2; h++)
    {
        const __m512i odd = bytes[2 * h + 1];
        const __m512i turned =
            _mm512_or_si512(_mm512_slli_epi16(odd, 8), _mm512_srli_epi16(odd, 8));
        _mm512_store_si512(to + 64 + 64 * h, _mm512_or_si512(bytes[2 * h], turned));
    }
    return others;
}

static uint32_t put(const struct weft__codes_block *block,
                    const uint8_t by_exponent[WEFT__CODES_COUNTS], uint32_t listed)
{
    uint32_t *first = (uint32_t *)(void *)(block->packed + sizeof(struct weft__codes_head));
    struct weft__codes_other *begin = (void *)(block->packed + block->at.others),
                             *others = begin + listed;
    __m512i codes[4];
    for (int i = 0; i < 4; i++)
        codes[i] = _mm512_loadu_si512(by_exponent + 64 * i);
    for (int64_t r = 0; r < block->rows; r++) {
        const unsigned char *w = block->weight + r * block->stride_bytes;
        unsigned char *to = block->packed + block->at.rows + (block->row + r) * block->at.row_bytes;
        first[block->row + r] = (uint32_t)(others - begin);
        for (int64_t k = 0; k < block->cols; k += WEFT__CODES_COLS, to += WEFT__CODES_BYTES)
            others = put_unit(to, w, k, codes, others);
    }
    return (uint32_t)(others - begin);
}

const struct weft__codes_packer weft__linear_codes_packer_avx512vnni = {count, put};
