// SPDX-License-Identifier: MIT
// Eight or sixteen rows of X (linear_few.cu), rounded: linear_some.cuh.
#ifndef WEFT_KERNELS_LINEAR_FEW_SOME_CUH
#define WEFT_KERNELS_LINEAR_FEW_SOME_CUH

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, float acc[COLUMNS / 2 * SLOT_BLOCKS])
{
    const int32_t pairs = tile_pairs(columns_of(args), s->tile0 + tile), row = x_pairs(s) * 4;
    const float4 *numbers = x_numbers(s);
    const struct x_of_block x = {(const uint4 *)shared_x() + s->lane / 4 * row + tile * 16,
                                 numbers + tile * 4 * (COLUMNS / 2),
                                 (const float2 *)(numbers + 2 * x_plane(s)) +
                                     tile * 4 * SIXTEENS * COLUMNS,
                                 row, x_plane(s)};
    struct tile_scales scales[SLOT_BLOCKS];
#pragma unroll
    for (int32_t k = 0; k < SLOT_BLOCKS; k++)
        tile_scales_load(&scales[k], slot + k * TILE_SLOT, pairs, s->lane / 4);
    tiles_add<4, SLOT_BLOCKS>(scales, slot, TILE_SLOT, pairs, s->lane, &x,
                              some_top(args->num_groups), acc);
}

#endif
