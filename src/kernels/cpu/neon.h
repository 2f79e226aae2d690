// SPDX-License-Identifier: MIT
// Vectors of f32 on Advanced SIMD (AArch64); the meaning of each name stands in avx512.h.
#ifndef WEFT_KERNELS_CPU_NEON_H
#define WEFT_KERNELS_CPU_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef float32x4_t vf32;
enum { VF32_LANES = 4 };

static inline vf32 vf32_set1(float x)
{
    return vdupq_n_f32(x);
}

static inline vf32 vf32_zero(void)
{
    return vdupq_n_f32(0);
}

static inline vf32 vf32_load(const float *x)
{
    return vld1q_f32(x);
}

static inline vf32 vf32_load_n(const float *x, int n)
{
    float part[4] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return vld1q_f32(part);
}

static inline vf32 vf32_load_f16(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

static inline vf32 vf32_load_f16_n(const uint16_t *x, int n)
{
    uint16_t part[4] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return vf32_load_f16(part);
}

static inline vf32 vf32_load_bf16(const uint16_t *x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16));
}

static inline vf32 vf32_load_bf16_n(const uint16_t *x, int n)
{
    uint16_t part[4] = {0};
    memcpy(part, x, (size_t)n * sizeof *x);
    return vf32_load_bf16(part);
}

static inline int16x8_t vf32_widen_i8(const void *x) // four of them
{
    int32_t bytes;
    memcpy(&bytes, x, sizeof bytes);
    return vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)));
}

static inline vf32 vf32_load_i8(const int8_t *x)
{
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vf32_widen_i8(x))));
}

// Numbers of fp8_e4m3 over 256: the bits of a half but for the bias of the exponent. 0x7f is NaN.
static inline vf32 vf32_load_e4m3(const uint8_t *x)
{
    uint16x4_t half = vshl_n_u16(vreinterpret_u16_s16(vget_low_s16(vf32_widen_i8(x))), 7);
    half = vand_u16(half, vdup_n_u16(0xbfff));
    uint16x4_t nan = vceq_u16(vand_u16(half, vdup_n_u16(0x7fff)), vdup_n_u16(0x3f80));
    half = vorr_u16(half, vand_u16(nan, vdup_n_u16(0x7e00)));
    return vcvt_f32_f16(vreinterpret_f16_u16(half));
}

// The same from element `part` of 32 that lie together.
static inline vf32 vf32_load_e4m3_part(const uint8_t *x, const int part)
{
    return vf32_load_e4m3(x + part);
}

// Numbers of fp8_e5m2: the upper halves of halves.
static inline vf32 vf32_load_e5m2(const uint8_t *x)
{
    uint16x4_t half = vshl_n_u16(vreinterpret_u16_s16(vget_low_s16(vf32_widen_i8(x))), 8);
    return vcvt_f32_f16(vreinterpret_f16_u16(half));
}

// levels[n] for the low, or the high, halves of the bytes.
static inline vf32 vf32_load_levels(const uint8_t *x, bool high, const float levels[16])
{
    float y[VF32_LANES];
    for (int i = 0; i < VF32_LANES; i++)
        y[i] = levels[high ? x[i] >> 4 : x[i] & 15];
    return vld1q_f32(y);
}

// x + y in lane i where bit i is set.
static inline vf32 vf32_add_where(vf32 x, uint32_t bits, vf32 y)
{
    const uint32_t lanes[4] = {1, 2, 4, 8};
    uint32x4_t set = vtstq_u32(vdupq_n_u32(bits), vld1q_u32(lanes));
    return vaddq_f32(x, vreinterpretq_f32_u32(vandq_u32(set, vreinterpretq_u32_f32(y))));
}

static inline vf32 vf32_set1_f16(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(*x)));
}

static inline void vf32_store(float *y, vf32 x)
{
    vst1q_f32(y, x);
}

static inline void vf32_store_n(float *y, vf32 x, int n)
{
    float part[4];
    vst1q_f32(part, x);
    memcpy(y, part, (size_t)n * sizeof *y);
}

static inline void vf32_store_f16(uint16_t *y, vf32 x)
{
    vst1_u16(y, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

static inline void vf32_store_f16_n(uint16_t *y, vf32 x, int n)
{
    uint16_t part[4];
    vf32_store_f16(part, x);
    memcpy(y, part, (size_t)n * sizeof *y);
}

static inline void vf32_store_bf16(uint16_t *y, vf32 x)
{
    uint32x4_t bits = vreinterpretq_u32_f32(x);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(y, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), up, quiet), 16));
}

static inline void vf32_store_bf16_n(uint16_t *y, vf32 x, int n)
{
    uint16_t part[4];
    vf32_store_bf16(part, x);
    memcpy(y, part, (size_t)n * sizeof *y);
}

static inline vf32 vf32_add(vf32 a, vf32 b)
{
    return vaddq_f32(a, b);
}

static inline vf32 vf32_sub(vf32 a, vf32 b)
{
    return vsubq_f32(a, b);
}

static inline vf32 vf32_mul(vf32 a, vf32 b)
{
    return vmulq_f32(a, b);
}

static inline vf32 vf32_div(vf32 a, vf32 b)
{
    return vdivq_f32(a, b);
}

static inline vf32 vf32_fma(vf32 a, vf32 b, vf32 c)
{
    return vfmaq_f32(c, a, b);
}

static inline vf32 vf32_max(vf32 a, vf32 b)
{
    return vmaxq_f32(a, b);
}

static inline vf32 vf32_min(vf32 a, vf32 b)
{
    return vminq_f32(a, b);
}

static inline vf32 vf32_abs(vf32 x)
{
    return vabsq_f32(x);
}

static inline vf32 vf32_select_less(vf32 x, vf32 y, vf32 a, vf32 b)
{
    return vbslq_f32(vcltq_f32(x, y), a, b);
}

static inline vf32 vf32_keep(vf32 x, int begin, int end, vf32 other)
{
    const int32_t lanes[4] = {0, 1, 2, 3};
    int32x4_t lane = vld1q_s32(lanes);
    uint32x4_t keep =
        vandq_u32(vcgeq_s32(lane, vdupq_n_s32(begin)), vcltq_s32(lane, vdupq_n_s32(end)));
    return vbslq_f32(keep, x, other);
}

static inline float vf32_sum(vf32 x)
{
    return vaddvq_f32(x);
}

static inline float vf32_largest(vf32 x)
{
    return vmaxvq_f32(x);
}

static inline void vf32_transpose(vf32 v[VF32_LANES])
{
    float32x4x2_t a = vtrnq_f32(v[0], v[1]), b = vtrnq_f32(v[2], v[3]);
    v[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    v[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    v[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    v[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

static inline vf32 vf32_sums(const vf32 v[VF32_LANES])
{
    return vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
}

static inline vf32 vf32_round(vf32 x)
{
    return vrndnq_f32(x);
}

// In two steps, because 2^n itself may not be a normal number. |n| <= 252.
static inline vf32 vf32_scale(vf32 p, vf32 n)
{
    const int32x4_t bias = vdupq_n_s32(127);
    int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1);
    int32x4_t rest = vsubq_s32(whole, half);
    float32x4_t a = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    float32x4_t b = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(p, a), b);
}

static inline vf32 vf32_load_pairs(const float *x)
{
    float32x2_t half = vld1_f32(x);
    return vcombine_f32(vdup_lane_f32(half, 0), vdup_lane_f32(half, 1));
}

static inline vf32 vf32_swap_pairs(vf32 x)
{
    return vrev64q_f32(x);
}

static inline vf32 vf32_alternate(vf32 a, vf32 b, vf32 c)
{
    const float signs[4] = {-1, 1, -1, 1};
    return vfmaq_f32(vmulq_f32(c, vld1q_f32(signs)), a, b);
}

typedef struct vf64 {
    float64x2_t low, high;
} vf64;

static inline vf64 vf64_set1(double x)
{
    return (vf64){vdupq_n_f64(x), vdupq_n_f64(x)};
}

static inline vf64 vf64_widen(vf32 x)
{
    return (vf64){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
}

static inline vf32 vf64_narrow(vf64 x)
{
    return vcvt_high_f32_f64(vcvt_f32_f64(x.low), x.high);
}

static inline vf64 vf64_add(vf64 a, vf64 b)
{
    return (vf64){vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high)};
}

static inline vf64 vf64_sub(vf64 a, vf64 b)
{
    return (vf64){vsubq_f64(a.low, b.low), vsubq_f64(a.high, b.high)};
}

static inline vf64 vf64_mul(vf64 a, vf64 b)
{
    return (vf64){vmulq_f64(a.low, b.low), vmulq_f64(a.high, b.high)};
}

static inline vf64 vf64_fma(vf64 a, vf64 b, vf64 c)
{
    return (vf64){vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high)};
}

static inline double vf64_sum(vf64 x)
{
    return vaddvq_f64(vaddq_f64(x.low, x.high));
}

#include "src/kernels/cpu/vf32_math.h"

#endif
