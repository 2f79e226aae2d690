// SPDX-License-Identifier: MIT
// Any format, with Advanced SIMD; weft__dot16() is the instruction set's own.
#ifndef WEFT_KERNELS_LINEAR_ANY_NEON_H
#define WEFT_KERNELS_LINEAR_ANY_NEON_H

static inline vf32 weft__any_widen(const uint8_t *q)
{
    uint32_t four;
    memcpy(&four, q, sizeof four);
    uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)));
}

// acc + 256 products.
WEFT__INLINE vf32 weft__any_dot(vf32 acc, const struct weft__piece *w,
                                const struct weft__rounded_row *x, int64_t k, bool minima,
                                bool wide)
{
    const uint8x16_t flip = vdupq_n_u8(minima && !wide ? 0 : 128);
    float taken = 0;
    for (int i = 0; i < WEFT__PIECE / 16; i++) {
        int8x16_t q = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(w->q + 16 * i), flip));
        int8x16_t xq = vld1q_s8(x->q + k + 16 * i);
        float scale = x->scale[k / 32 + i / 2];
        int32x4_t dot = weft__dot16(vdupq_n_s32(0), q, xq);
        if (wide) { // codes of 8 bits: 128 more than what was multiplied
            dot = weft__dot16(dot, vdupq_n_s8(64), xq);
            dot = weft__dot16(dot, vdupq_n_s8(64), xq);
        }
        acc = vfmaq_n_f32(acc, vcvtq_f32_s32(dot), w->scale[i] * scale);
        if (minima)
            taken += w->minimum[i] * (scale * (1.0f / 32) * (float)x->sum16[k / 16 + i]);
    }
    return minima ? vsetq_lane_f32(vgetq_lane_f32(acc, 0) + taken, acc, 0) : acc;
}

#include "src/kernels/linear/linear_any_rows.h"

static inline void weft__any_q8(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    const struct weft__any_format *format = weft__any_format_neon(call->dtype);
    if (format->traits.wide)
        weft__any_q8_rows(call, format, row0, row1, true, true);
    else if (format->traits.minima)
        weft__any_q8_rows(call, format, row0, row1, true, false);
    else
        weft__any_q8_rows(call, format, row0, row1, false, false);
}

#endif
