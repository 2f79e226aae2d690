// SPDX-License-Identifier: MIT
// acc + scaled dot products of 32 bytes; weft__dot16() is the instruction set's own.
#ifndef WEFT_KERNELS_LINEAR_DOT_NEON_H
#define WEFT_KERNELS_LINEAR_DOT_NEON_H

WEFT__INLINE vf32 weft__bytes32_dot(vf32 acc, weft__bytes32 w, weft__bytes32 x, float first,
                                    float second, bool two_scales)
{
    int32x4_t dot = weft__dot16(vdupq_n_s32(0), w.val[0], x.val[0]);
    if (!two_scales)
        return vfmaq_n_f32(acc, vcvtq_f32_s32(weft__dot16(dot, w.val[1], x.val[1])), first);
    acc = vfmaq_n_f32(acc, vcvtq_f32_s32(dot), first);
    dot = weft__dot16(vdupq_n_s32(0), w.val[1], x.val[1]);
    return vfmaq_n_f32(acc, vcvtq_f32_s32(dot), second);
}

#endif
