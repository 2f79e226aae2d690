// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/linear/linear_round.h"

// vcvtnq rounds to nearest even and makes 0 of NaN.
static inline int16x8_t round_eight(const float *x, float inverse)
{
    int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse));
    int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4), inverse));
    return vcombine_s16(vqmovn_s32(low), vqmovn_s32(high));
}

WEFT__INLINE float round_group(const float *x, int8_t *q, int32_t sum[2])
{
    // The bits of magnitudes sort like the numbers, NaN above all.
    uint32x4_t bits = vdupq_n_u32(0);
    for (int i = 0; i < 32; i += 4)
        bits = vmaxq_u32(bits, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
    uint32_t largest_bits = vmaxvq_u32(bits);
    float largest;
    memcpy(&largest, &largest_bits, sizeof largest);
    float inverse = weft__round_inverse(largest);
    for (int i = 0; i < 2; i++) {
        int16x8_t low = round_eight(x + 16 * i, inverse);
        int16x8_t high = round_eight(x + 16 * i + 8, inverse);
        vst1q_s8(q + 16 * i, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
        sum[i] = vaddlvq_s16(low) + vaddlvq_s16(high);
    }
    return largest / 127.0f;
}

weft__round_fn weft__round_neon;
void weft__round_neon(const struct weft__rounded_row *to, int64_t k, int64_t end, const float *x,
                      int64_t n, bool few)
{
    weft__round_columns(to, k, end, x, n, few, round_group);
}
