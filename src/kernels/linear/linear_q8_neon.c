// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/linear/linear_bytes_neon.h"

WEFT__INLINE int32x4_t weft__dot16(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    return vpadalq_s16(acc, vmull_s8(vget_high_s8(w), vget_high_s8(x)));
}

#include "src/kernels/linear/linear_dot_neon.h"
#include "src/kernels/linear/linear_q8.h"

WEFT__LINEAR_Q8_ALL(neon)
