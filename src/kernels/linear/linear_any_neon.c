// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/linear/linear_any.h"

WEFT__INLINE int32x4_t weft__dot16(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    return vpadalq_s16(acc, vmull_s8(vget_high_s8(w), vget_high_s8(x)));
}

#include "src/kernels/linear/linear_any_neon.h"

weft__linear_fn weft__linear_any_q8_neon;
void weft__linear_any_q8_neon(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    weft__any_q8(call, row0, row1);
}

weft__linear_fn weft__linear_any_f32_neon;
void weft__linear_any_f32_neon(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    weft__any_f32_rows(call, weft__any_format_neon(call->dtype), row0, row1);
}
