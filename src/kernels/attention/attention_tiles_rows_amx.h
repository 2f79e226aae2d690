// SPDX-License-Identifier: MIT
// Sums of 16 rows on the tiles of AMX, and what becomes of them. Part of attention_tiles_amx.c and attention_f16_amx.c.
#ifndef WEFT_KERNELS_ATTENTION_TILES_ROWS_AMX_H
#define WEFT_KERNELS_ATTENTION_TILES_ROWS_AMX_H

#include "src/kernels/attention/attention_tiles_amx.h"

static float *sums_of(const struct rows *s, int32_t b)
{
    return s->acc + (int64_t)b * s->groups * 2 * TILE_SUMS;
}

// acc times what became of the largest scores. Most blocks of keys have none that is larger.
static void shrink_sums(const struct rows *s, int32_t b)
{
    const __m512 shrink = _mm512_loadu_ps(s->shrink + b * LANES);
    float *acc = sums_of(s, b);
    if (!_mm512_cmpneq_ps_mask(shrink, vf32_set1(1)))
        return;
    for (int32_t i = 0; i < s->groups * 2 * LANES; i++)
        vf32_store(acc + i * LANES, vf32_mul(vf32_set1(s->shrink[b * LANES + i % LANES]),
                                             vf32_load(acc + i * LANES)));
}

// Where column `column` of a row is among the sums of its block of rows.
static int64_t place_of(const struct rows *s, int32_t row, int32_t column)
{
    if (s->call->v.dtype == WEFT_F16)
        return ((int64_t)(column / LANES) * LANES + row) * LANES + column % LANES;
    const int32_t half = column % 8 / 4, place = column % GROUP / 8 * 4 + column % 4;
    return ((int64_t)(column / GROUP * 2 + half) * LANES + row) * LANES + place;
}

// Columns [i, i + 32) of a row's results in their order.
INLINE void load_columns(const struct rows *s, int32_t row, int32_t i, __m512 x[2])
{
    const float *acc = sums_of(s, row / LANES) + row % LANES * LANES + i / GROUP * 2 * TILE_SUMS;
    const __m512 low = vf32_load(acc), high = vf32_load(acc + TILE_SUMS);
    x[0] = low, x[1] = high;
    if (s->call->v.dtype == WEFT_F16) // two keys are put beside each other column by column
        return;
    const __m512 first = _mm512_shuffle_f32x4(low, high, 0x44);
    const __m512 second = _mm512_shuffle_f32x4(low, high, 0xee);
    x[0] = _mm512_shuffle_f32x4(first, first, 0xd8);
    x[1] = _mm512_shuffle_f32x4(second, second, 0xd8);
}

static void store_row(const struct rows *s, int32_t row)
{
    for (int32_t i = 0; i < s->call->v.dim; i += GROUP) {
        __m512 x[2];
        load_columns(s, row, i, x);
        vf32_store(s->row + i, x[0]);
        vf32_store(s->row + i + LANES, x[1]);
    }
    weft__attention_finish(s->call, s->tile, row, s->largest[row], s->sum[row], s->row);
}

#endif
