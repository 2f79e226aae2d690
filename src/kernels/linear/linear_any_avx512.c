// SPDX-License-Identifier: MIT
// Any format by f32 rows of X.
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_any.h"

static inline vf32 weft__any_widen(const uint8_t *q)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q)));
}

#define WEFT__ANY_F32_ONLY
#include "src/kernels/linear/linear_any_rows.h"

weft__linear_fn weft__linear_any_f32_avx512;
void weft__linear_any_f32_avx512(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    weft__any_f32_rows(call, weft__any_format_avx2(call->dtype), row0, row1);
}
