// SPDX-License-Identifier: MIT
// Panels (linear_gemm_avx512.h) of further formats of 256, and of any format, for LINEAR_GEMM_ISA.
#include "src/kernels/linear/linear_gemm_avx512.h"

WEFT__INLINE void unpack_q5_k(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    const unsigned char *block = row + k / 256 * 176;
    int n = (int)(k / 128 % 2);
    (void)cols;
    weft__vnni_unpack_q4_k(block + 48 + 64 * n, w);
    weft__vnni_fifth_q5_k(block + 16, n, w);
}

WEFT__INLINE void unpack_scales_q5_k(struct panel *p, const unsigned char *const rows[16],
                                     int64_t k, int64_t cols, int half)
{
    unpack_scales_q45_k(p, rows, k, cols, half, 176);
}

WEFT__INLINE void unpack_iq4_xs(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    (void)cols;
    weft__vnni_unpack_iq4_xs(row + k / 256 * 136 + 8 + k % 256 / 2, w);
}

WEFT__INLINE void unpack_scales_iq4_xs(struct panel *p, const unsigned char *const rows[16],
                                       int64_t k, int64_t cols, int half)
{
    __m512 v[16];
    for (int r = 0; r < 16; r++) {
        const unsigned char *block = rows[r] + k / 256 * 136;
        __m256 first = weft__vnni_scales_iq4_xs(block);
        __m256 second = k + 256 < cols ? weft__vnni_scales_iq4_xs(block + 136) : first;
        v[r] = _mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1);
    }
    turn_scales(v, p->scale, half);
}

// Columns 64 i .. 64 i + 63 of a q3_k block times their six-bit scales, which is -124 to 128. The negative
// of that, raised by 128, is a byte; -d is left to multiply by.
WEFT__INLINE __m512i unpack_scaled_q3_k(const unsigned char *block, __m512i scales, int i)
{
    const __m512i zero = _mm512_setzero_si512();
    const long long each = 0x0001000100010001;
    const __m512i sixteen =
        _mm512_setr_epi64(0, 0, each, each, 2 * each, 2 * each, 3 * each, 3 * each);
    __m512i at = _mm512_add_epi16(sixteen, _mm512_set1_epi16((short)(4 * i)));
    __m512i scale = _mm512_permutexvar_epi16(at, scales), q = weft__vnni_unpack_q3_k(block, i);
    __m512i minus = _mm512_sub_epi16(zero, scale);
    __m512i offset = _mm512_add_epi16(_mm512_slli_epi16(scale, 2), _mm512_set1_epi16(128));
    __m512i low = _mm512_mullo_epi16(_mm512_unpacklo_epi8(q, zero), minus);
    __m512i high = _mm512_mullo_epi16(_mm512_unpackhi_epi8(q, zero), minus);
    return _mm512_packus_epi16(_mm512_add_epi16(low, offset), _mm512_add_epi16(high, offset));
}

WEFT__INLINE void unpack_q3_k(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    const unsigned char *block = row + k / 256 * 110;
    __m256i words = _mm256_cvtepi8_epi16(weft__vnni_scale_bytes_q3_k(block));
    int n = (int)(k / 128 % 2);
    (void)cols;
    for (int i = 0; i < 2; i++)
        w[i] = unpack_scaled_q3_k(block, _mm512_castsi256_si512(words), 2 * n + i);
}

WEFT__INLINE void unpack_scales_q3_k(struct panel *p, const unsigned char *const rows[16],
                                     int64_t k, int64_t cols, int half)
{
    for (int i = 0; i < 2 && k + 256 * i < cols; i++) {
        uint16_t d[16];
        for (int r = 0; r < 16; r++)
            memcpy(&d[r], rows[r] + (k / 256 + i) * 110 + 108, sizeof d[r]);
        __m512 minus = _mm512_sub_ps(_mm512_setzero_ps(), vf32_load_f16(d));
        for (int g = 0; g < 8; g++)
            p->scale[8 * i + g][half] = minus;
    }
}

LINEAR_GEMM(Q5_K, unpack_q5_k, unpack_scales_q5_k, {0, 1, 4, 5, 2, 3, 6, 7}, 32, 88, true, 0, NULL)
LINEAR_GEMM(IQ4_XS, unpack_iq4_xs, unpack_scales_iq4_xs, {0, 4, 1, 5, 2, 6, 3, 7}, 32, 68, false, 4,
            NULL)
LINEAR_GEMM(Q3_K, unpack_q3_k, unpack_scales_q3_k, {0, 1, 2, 3, 4, 5, 6, 7}, 32, 55, false, 4, NULL)

LINEAR_GEMM_FUNCTION(any)
{
    struct format f = {.place = {0, 1, 2, 3, 4, 5, 6, 7}};
    f.any = weft__any_format_avx2(call->dtype);
    bool minima = f.any->traits.minima != WEFT__NO_MINIMA;
    // Constants of four functions.
    if (!f.any->traits.sixteens && minima) {
        f.group = 32, f.minimum = true;
        multiply(call, row0, row1, f);
    } else if (!f.any->traits.sixteens) {
        f.group = 32, f.minimum = false, f.offset_shift = 4;
        multiply(call, row0, row1, f);
    } else if (minima) {
        f.group = 16, f.minimum = true;
        multiply(call, row0, row1, f);
    } else {
        f.group = 16, f.minimum = false, f.offset_shift = 2;
        multiply(call, row0, row1, f);
    }
}
