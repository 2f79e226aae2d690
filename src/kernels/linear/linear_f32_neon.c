// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/linear/linear_bytes_neon.h"

// Part i of 32 bytes as f32.
WEFT__INLINE vf32 weft__bytes32_widen(weft__bytes32 q, int i)
{
    int8x16_t half = q.val[i / 4];
    int16x8_t words = vmovl_s8(i & 2 ? vget_high_s8(half) : vget_low_s8(half));
    return vcvtq_f32_s32(vmovl_s16(i & 1 ? vget_high_s16(words) : vget_low_s16(words)));
}

// Shapes that the registers hold: rows of X with four of W, vectors of a panel.
#define WEFT__F32_MANY    4
#define WEFT__F32_VECTORS 4

#include "src/kernels/linear/linear_f32.h"
#include "src/kernels/linear/linear_f32_gemm.h"

WEFT__LINEAR_F32_ALL(neon)
