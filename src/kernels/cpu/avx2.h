// SPDX-License-Identifier: MIT
// Vectors of f32 on AVX2 with FMA and F16C; the meaning of each name stands in avx512.h.
#ifndef WEFT_KERNELS_CPU_AVX2_H
#define WEFT_KERNELS_CPU_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef __m256 vf32;
enum { VF32_LANES = 8 };

static inline __m256i vf32_first(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

static inline vf32 vf32_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf32 vf32_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vf32 vf32_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

static inline vf32 vf32_load_n(const float *x, int n)
{
    return _mm256_maskload_ps(x, vf32_first(n));
}

static inline vf32 vf32_load_f16(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}

static inline vf32 vf32_load_f16_n(const uint16_t *x, int n)
{
    uint16_t part[8] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return vf32_load_f16(part);
}

static inline vf32 vf32_load_bf16(const uint16_t *x)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline vf32 vf32_load_bf16_n(const uint16_t *x, int n)
{
    uint16_t part[8] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return vf32_load_bf16(part);
}

static inline vf32 vf32_load_i8(const int8_t *x)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)x)));
}

// Numbers of fp8_e4m3 over 256: the bits of a half but for the bias of the exponent. 0x7f is NaN.
static inline vf32 vf32_load_e4m3(const uint8_t *x)
{
    __m128i half = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)x));
    half = _mm_and_si128(_mm_slli_epi16(half, 7), _mm_set1_epi16((short)0xbfff));
    __m128i size = _mm_and_si128(half, _mm_set1_epi16(0x7fff));
    __m128i nan = _mm_cmpeq_epi16(size, _mm_set1_epi16(0x3f80));
    half = _mm_or_si128(half, _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
    return _mm256_cvtph_ps(half);
}

// The same from element `part` of 32 that lie together.
static inline vf32 vf32_load_e4m3_part(const uint8_t *x, const int part)
{
    return vf32_load_e4m3(x + part);
}

// Numbers of fp8_e5m2: the upper halves of halves.
static inline vf32 vf32_load_e5m2(const uint8_t *x)
{
    __m128i half = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)x));
    return _mm256_cvtph_ps(_mm_slli_epi16(half, 8));
}

// levels[n] for the low, or the high, halves of the bytes.
static inline vf32 vf32_load_levels(const uint8_t *x, bool high, const float levels[16])
{
    __m256i n = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)x)); // permutes read 3 bits
    if (high)
        n = _mm256_srli_epi32(n, 4);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(levels), n),
                            _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels + 8), n),
                            _mm256_castsi256_ps(_mm256_slli_epi32(n, 28)));
}

// x + y in lane i where bit i is set.
static inline vf32 vf32_add_where(vf32 x, uint32_t bits, vf32 y)
{
    const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), lanes);
    return _mm256_add_ps(x, _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lanes)), y));
}

static inline vf32 vf32_set1_f16(const uint16_t *x)
{
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(*x)));
}

static inline void vf32_store(float *y, vf32 x)
{
    _mm256_storeu_ps(y, x);
}

static inline void vf32_store_n(float *y, vf32 x, int n)
{
    _mm256_maskstore_ps(y, vf32_first(n), x);
}

static inline void vf32_store_f16(uint16_t *y, vf32 x)
{
    _mm_storeu_si128((__m128i *)y,
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void vf32_store_f16_n(uint16_t *y, vf32 x, int n)
{
    uint16_t part[8];
    vf32_store_f16(part, x);
    memcpy(y, part, (size_t)n * sizeof *y);
}

static inline void vf32_store_bf16(uint16_t *y, vf32 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    up = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(up, up), 0x08);
    _mm_storeu_si128((__m128i *)y, _mm256_castsi256_si128(packed));
}

static inline void vf32_store_bf16_n(uint16_t *y, vf32 x, int n)
{
    uint16_t part[8];
    vf32_store_bf16(part, x);
    memcpy(y, part, (size_t)n * sizeof *y);
}

static inline vf32 vf32_add(vf32 a, vf32 b)
{
    return _mm256_add_ps(a, b);
}

static inline vf32 vf32_sub(vf32 a, vf32 b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf32 vf32_mul(vf32 a, vf32 b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf32 vf32_div(vf32 a, vf32 b)
{
    return _mm256_div_ps(a, b);
}

static inline vf32 vf32_fma(vf32 a, vf32 b, vf32 c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf32 vf32_max(vf32 a, vf32 b)
{
    return _mm256_max_ps(a, b);
}

static inline vf32 vf32_min(vf32 a, vf32 b)
{
    return _mm256_min_ps(a, b);
}

static inline vf32 vf32_abs(vf32 x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

static inline vf32 vf32_select_less(vf32 x, vf32 y, vf32 a, vf32 b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}

static inline vf32 vf32_keep(vf32 x, int begin, int end, vf32 other)
{
    __m256i keep = _mm256_andnot_si256(vf32_first(begin), vf32_first(end));
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(keep));
}

static inline float vf32_sum(vf32 x)
{
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}

static inline float vf32_largest(vf32 x)
{
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}

static inline void vf32_transpose(vf32 v[VF32_LANES])
{
    vf32 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + j + 2], 0x44);
            b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + j + 2], 0xee);
        }
    for (int c = 0; c < 4; c++) {
        v[c] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x20);
        v[4 + c] = _mm256_permute2f128_ps(b[c], b[4 + c], 0x31);
    }
}

static inline vf32 vf32_sums(const vf32 v[VF32_LANES])
{
    vf32 a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    vf32 b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline vf32 vf32_round(vf32 x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// In two steps, because 2^n itself may not be a normal number. |n| <= 252.
static inline vf32 vf32_scale(vf32 p, vf32 n)
{
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i rest = _mm256_sub_epi32(whole, half);
    __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}

static inline vf32 vf32_load_pairs(const float *x)
{
    __m128 half = _mm_loadu_ps(x);
    return _mm256_set_m128(_mm_unpackhi_ps(half, half), _mm_unpacklo_ps(half, half));
}

static inline vf32 vf32_swap_pairs(vf32 x)
{
    return _mm256_permute_ps(x, 0xb1);
}

static inline vf32 vf32_alternate(vf32 a, vf32 b, vf32 c)
{
    return _mm256_fmaddsub_ps(a, b, c);
}

typedef struct vf64 {
    __m256d low, high;
} vf64;

static inline vf64 vf64_set1(double x)
{
    return (vf64){_mm256_set1_pd(x), _mm256_set1_pd(x)};
}

static inline vf64 vf64_widen(vf32 x)
{
    return (vf64){_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                  _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

static inline vf32 vf64_narrow(vf64 x)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(x.high), _mm256_cvtpd_ps(x.low));
}

static inline vf64 vf64_add(vf64 a, vf64 b)
{
    return (vf64){_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
}

static inline vf64 vf64_sub(vf64 a, vf64 b)
{
    return (vf64){_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
}

static inline vf64 vf64_mul(vf64 a, vf64 b)
{
    return (vf64){_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
}

static inline vf64 vf64_fma(vf64 a, vf64 b, vf64 c)
{
    return (vf64){_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}

static inline double vf64_sum(vf64 x)
{
    __m256d y = _mm256_add_pd(x.low, x.high);
    __m128d z = _mm_add_pd(_mm256_castpd256_pd128(y), _mm256_extractf128_pd(y, 1));
    return _mm_cvtsd_f64(_mm_add_sd(z, _mm_unpackhi_pd(z, z)));
}

#include "src/kernels/cpu/vf32_math.h"

#endif
