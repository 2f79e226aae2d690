// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/linear/linear_any.h"

#define weft__dot16 vdotq_s32

#include "src/kernels/linear/linear_any_neon.h"

weft__linear_fn weft__linear_any_q8_neondot;
void weft__linear_any_q8_neondot(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    weft__any_q8(call, row0, row1);
}
