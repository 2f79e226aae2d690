// SPDX-License-Identifier: MIT
// Vectors of f32 on AVX-512: the vocabulary that avx2.h and neon.h speak as well, so that a kernel
// whose text does not depend on the width is written once.
//
//   load_f16 and the like widen exactly; store_f16 and store_bf16 round to nearest even.
//   *_n reads or writes only the first n elements (0 <= n <= VF32_LANES); a load puts zeros after them.
//   fma(a, b, c) = a * b + c, rounded once. max and min of a NaN in the second operand are NaN.
#ifndef WEFT_KERNELS_CPU_AVX512_H
#define WEFT_KERNELS_CPU_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

// Keeps gcc from loading a vector again wherever it is used.
#define WEFT__IN_REGISTER(v) __asm__("" : "+v"(v))

typedef __m512 vf32;
enum { VF32_LANES = 16 };

static inline __mmask16 vf32_first(int n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline vf32 vf32_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf32 vf32_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vf32 vf32_load(const float *x)
{
    return _mm512_loadu_ps(x);
}

static inline vf32 vf32_load_n(const float *x, int n)
{
    return _mm512_maskz_loadu_ps(vf32_first(n), x);
}

static inline vf32 vf32_load_f16(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}

static inline vf32 vf32_load_f16_n(const uint16_t *x, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vf32_first(n), x));
}

static inline vf32 vf32_load_bf16(const uint16_t *x)
{
    __m256i half = _mm256_loadu_si256((const __m256i *)x);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline vf32 vf32_load_bf16_n(const uint16_t *x, int n)
{
    __m256i half = _mm256_maskz_loadu_epi16(vf32_first(n), x);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline vf32 vf32_load_i8(const int8_t *x)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
}

// Numbers of fp8_e4m3 over 256: the bits of a half but for the bias of the exponent. 0x7f is NaN.
static inline vf32 vf32_load_e4m3(const uint8_t *x)
{
    __m256i half = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)x));
    half = _mm256_and_si256(_mm256_slli_epi16(half, 7), _mm256_set1_epi16((short)0xbfff));
    __m256i size = _mm256_and_si256(half, _mm256_set1_epi16(0x7fff));
    __m256i nan = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x3f80));
    half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    return _mm512_cvtph_ps(half);
}

// The same from element `part` of 32 that lie together, 0 or 16: who takes both decodes them once.
static inline vf32 vf32_load_e4m3_part(const uint8_t *x, const int part)
{
    const __m256i codes = _mm256_loadu_si256((const __m256i *)x);
    const __mmask32 numbers = _mm256_cmpneq_epi8_mask(
        _mm256_or_si256(codes, _mm256_set1_epi8((char)0x80)), _mm256_set1_epi8(-1));
    const __m512i halves = _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), 7),
                                            _mm512_set1_epi16((short)0xbfff));
    return _mm512_mask_cvtph_ps(_mm512_set1_ps(__builtin_nanf("")), (__mmask16)(numbers >> part),
                                part ? _mm512_extracti64x4_epi64(halves, 1)
                                     : _mm512_castsi512_si256(halves));
}

// Numbers of fp8_e5m2: the upper halves of halves.
static inline vf32 vf32_load_e5m2(const uint8_t *x)
{
    __m256i half = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)x));
    return _mm512_cvtph_ps(_mm256_slli_epi16(half, 8));
}

// levels[n] for the low, or the high, halves of the bytes.
static inline vf32 vf32_load_levels(const uint8_t *x, bool high, const float levels[16])
{
    __m512i n =
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)x)); // the permute reads 4 bits
    if (high)
        n = _mm512_srli_epi32(n, 4);
    return _mm512_permutexvar_ps(n, _mm512_loadu_ps(levels));
}

// x + y in lane i where bit i is set.
static inline vf32 vf32_add_where(vf32 x, uint32_t bits, vf32 y)
{
    return _mm512_mask_add_ps(x, (__mmask16)bits, x, y);
}

static inline vf32 vf32_set1_f16(const uint16_t *x)
{
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(*x)));
}

static inline void vf32_store(float *y, vf32 x)
{
    _mm512_storeu_ps(y, x);
}

static inline void vf32_store_n(float *y, vf32 x, int n)
{
    _mm512_mask_storeu_ps(y, vf32_first(n), x);
}

static inline __m256i vf32_to_f16(vf32 x)
{
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline void vf32_store_f16(uint16_t *y, vf32 x)
{
    _mm256_storeu_si256((__m256i *)y, vf32_to_f16(x));
}

static inline void vf32_store_f16_n(uint16_t *y, vf32 x, int n)
{
    _mm256_mask_storeu_epi16(y, vf32_first(n), vf32_to_f16(x));
}

static inline __m256i vf32_to_bf16(vf32 x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
    __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
    WEFT__IN_REGISTER(
        half); // narrowing into memory, under a mask, takes ten times as long on a Zen
    return half;
}

static inline void vf32_store_bf16(uint16_t *y, vf32 x)
{
    _mm256_storeu_si256((__m256i *)y, vf32_to_bf16(x));
}

static inline void vf32_store_bf16_n(uint16_t *y, vf32 x, int n)
{
    _mm256_mask_storeu_epi16(y, vf32_first(n), vf32_to_bf16(x));
}

static inline vf32 vf32_add(vf32 a, vf32 b)
{
    return _mm512_add_ps(a, b);
}

static inline vf32 vf32_sub(vf32 a, vf32 b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf32 vf32_mul(vf32 a, vf32 b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf32 vf32_div(vf32 a, vf32 b)
{
    return _mm512_div_ps(a, b);
}

static inline vf32 vf32_fma(vf32 a, vf32 b, vf32 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf32 vf32_max(vf32 a, vf32 b)
{
    return _mm512_max_ps(a, b);
}

static inline vf32 vf32_min(vf32 a, vf32 b)
{
    return _mm512_min_ps(a, b);
}

static inline vf32 vf32_abs(vf32 x)
{
    return _mm512_abs_ps(x);
}

// a where x < y, else b.
static inline vf32 vf32_select_less(vf32 x, vf32 y, vf32 a, vf32 b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}

// x in the lanes [begin, end), `other` in the rest; begin and end may lie outside 0..VF32_LANES.
static inline vf32 vf32_keep(vf32 x, int begin, int end, vf32 other)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __mmask16 from = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(begin));
    __mmask16 keep = _mm512_mask_cmplt_epi32_mask(from, lane, _mm512_set1_epi32(end));
    return _mm512_mask_blend_ps(keep, other, x);
}

// The sum of the lanes, in a fixed tree.
static inline float vf32_sum(vf32 x)
{
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}

static inline float vf32_largest(vf32 x)
{
    __m256 y = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}

// Rows and columns of a square of VF32_LANES vectors change places.
static inline void vf32_transpose(vf32 v[VF32_LANES])
{
    vf32 a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d low = _mm512_castps_pd(a[i + j]), high = _mm512_castps_pd(a[i + j + 2]);
            b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    // b[4 g + c] holds column c of each 4 x 4 square of the rows 4 g .. 4 g + 3.
    for (int c = 0; c < 4; c++) {
        vf32 p = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88),
             q = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
        vf32 r = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
        vf32 s = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
        v[c] = _mm512_shuffle_f32x4(p, r, 0x88);
        v[8 + c] = _mm512_shuffle_f32x4(p, r, 0xdd);
        v[4 + c] = _mm512_shuffle_f32x4(q, s, 0x88);
        v[12 + c] = _mm512_shuffle_f32x4(q, s, 0xdd);
    }
}

// The same of a square in memory, rows `stride` numbers apart. A quarter of four rows is put together as it is loaded,
// which takes half of the shuffles.
static inline void vf32_load_transposed(const float *from, int64_t stride, vf32 v[VF32_LANES])
{
    for (int q = 0; q < 4; q++) {
        vf32 z[4];
        for (int r = 0; r < 4; r++) {
            const float *row = from + r * stride + 4 * q;
            z[r] = _mm512_castps128_ps512(_mm_loadu_ps(row));
            z[r] = _mm512_insertf32x4(z[r], _mm_loadu_ps(row + 4 * stride), 1);
            z[r] = _mm512_insertf32x4(z[r], _mm_loadu_ps(row + 8 * stride), 2);
            z[r] = _mm512_insertf32x4(z[r], _mm_loadu_ps(row + 12 * stride), 3);
        }
        for (int h = 0; h < 2; h++) {
            const __m512d a = _mm512_castps_pd(h ? _mm512_unpackhi_ps(z[0], z[1])
                                                 : _mm512_unpacklo_ps(z[0], z[1]));
            const __m512d b = _mm512_castps_pd(h ? _mm512_unpackhi_ps(z[2], z[3])
                                                 : _mm512_unpacklo_ps(z[2], z[3]));
            v[4 * q + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            v[4 * q + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
}

// Lane i of the result is the sum of the lanes of v[i], in a fixed tree.
static inline vf32 vf32_sums(const vf32 v[VF32_LANES])
{
    vf32 pairs[8], quads[4];
    for (int i = 0; i < 8; i++)
        pairs[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                                 _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        __m512d low = _mm512_castps_pd(pairs[2 * i]), high = _mm512_castps_pd(pairs[2 * i + 1]);
        quads[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
                                 _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
    }
    // quads[i]: in each 128-bit part the partial sums of v[4 i .. 4 i + 3].
    vf32 a = _mm512_add_ps(_mm512_shuffle_f32x4(quads[0], quads[1], 0x88),
                           _mm512_shuffle_f32x4(quads[0], quads[1], 0xdd));
    vf32 b = _mm512_add_ps(_mm512_shuffle_f32x4(quads[2], quads[3], 0x88),
                           _mm512_shuffle_f32x4(quads[2], quads[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

// (x rounded to the nearest integer n, 2^n * p): what exp2 ends with. Any n.
static inline vf32 vf32_round(vf32 x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf32 vf32_scale(vf32 p, vf32 n)
{
    return _mm512_scalef_ps(p, n);
}

// Neighbours: load_pairs takes VF32_LANES / 2 elements and gives each twice (x0 x0 x1 x1 ...), swap_pairs
// gives x1 x0 x3 x2 ..., and alternate(a, b, c) is a * b - c in even lanes, a * b + c in odd ones.
static inline vf32 vf32_load_pairs(const float *x)
{
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    return _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(x)));
}

static inline vf32 vf32_swap_pairs(vf32 x)
{
    return _mm512_permute_ps(x, 0xb1);
}

static inline vf32 vf32_alternate(vf32 a, vf32 b, vf32 c)
{
    return _mm512_fmaddsub_ps(a, b, c);
}

// VF32_LANES doubles, for sums that must not depend on a row's length or scale.
typedef struct vf64 {
    __m512d low, high;
} vf64;

static inline vf64 vf64_set1(double x)
{
    return (vf64){_mm512_set1_pd(x), _mm512_set1_pd(x)};
}

static inline vf64 vf64_widen(vf32 x)
{
    return (vf64){_mm512_cvtps_pd(_mm512_castps512_ps256(x)),
                  _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
}

static inline vf32 vf64_narrow(vf64 x)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.low)),
                              _mm512_cvtpd_ps(x.high), 1);
}

static inline vf64 vf64_add(vf64 a, vf64 b)
{
    return (vf64){_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}

static inline vf64 vf64_sub(vf64 a, vf64 b)
{
    return (vf64){_mm512_sub_pd(a.low, b.low), _mm512_sub_pd(a.high, b.high)};
}

static inline vf64 vf64_mul(vf64 a, vf64 b)
{
    return (vf64){_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)};
}

static inline vf64 vf64_fma(vf64 a, vf64 b, vf64 c)
{
    return (vf64){_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
}

static inline double vf64_sum(vf64 x)
{
    __m512d y = _mm512_add_pd(x.low, x.high);
    __m256d z = _mm256_add_pd(_mm512_castpd512_pd256(y), _mm512_extractf64x4_pd(y, 1));
    __m128d w = _mm_add_pd(_mm256_castpd256_pd128(z), _mm256_extractf128_pd(z, 1));
    return _mm_cvtsd_f64(_mm_add_sd(w, _mm_unpackhi_pd(w, w)));
}

#include "src/kernels/cpu/vf32_math.h"

#endif
