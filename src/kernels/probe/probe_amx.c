// SPDX-License-Identifier: MIT
// Four tiles of sums, each 16 x 16 numbers of f32 that a link adds 32 products to.
#include "src/kernels/cpu/amx.h"
#include "src/kernels/probe/probe_kernel.h"

enum { LANES = 16 * 16, SUMS = 4 };

weft__probe_fn weft__probe_bf16_amx;
uint64_t weft__probe_bf16_amx(const weft_probe_args *args, int64_t begin, int64_t end)
{
    uint32_t a[LANES], b[LANES];
    float sums[SUMS][LANES], sum = 0;
    (void)args;
    for (int i = 0; i < LANES; i++) {
        a[i] = weft__probe_pair;
        b[i] = weft__probe_opposite;
        sums[0][i] = 2 * weft__probe_one;
    }
    tiles_begin(16);
    tile_load(0, sums[0], TILE_ROW_BYTES);
    tile_load(1, sums[0], TILE_ROW_BYTES);
    tile_load(2, sums[0], TILE_ROW_BYTES);
    tile_load(3, sums[0], TILE_ROW_BYTES);
    tile_load(4, a, TILE_ROW_BYTES);
    tile_load(5, b, TILE_ROW_BYTES);
    for (int64_t step = begin; step < end; step++) {
        tile_dot_bf16(0, 4, 5);
        tile_dot_bf16(1, 4, 5);
        tile_dot_bf16(2, 4, 5);
        tile_dot_bf16(3, 4, 5);
    }
    tile_store(0, sums[0]);
    tile_store(1, sums[1]);
    tile_store(2, sums[2]);
    tile_store(3, sums[3]);
    tiles_end();
    for (int i = 0; i < SUMS * LANES; i++)
        sum += sums[i / LANES][i % LANES];
    return 32 * (uint64_t)(end - begin) * (uint64_t)(sum / 2);
}
