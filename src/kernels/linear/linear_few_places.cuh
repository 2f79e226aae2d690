// SPDX-License-Identifier: MIT
// Where rounded rows of X lie in the shared memory of a block that has some columns of them.
#ifndef WEFT_KERNELS_LINEAR_FEW_PLACES_CUH
#define WEFT_KERNELS_LINEAR_FEW_PLACES_CUH

#include "src/kernels/linear/linear_stream.cuh"

// X in shared memory: bytes [row][pair][64], then [row][pair][16] of scales and sums, an odd number of pairs
// a row, which keeps the lanes of a warp in different banks.
DEVICE int32_t x_pairs(const struct stream *s)
{
    return (s->tiles * 4) | 1;
}

#if WEFT_BATCH > 1

// Numbers of units beside the codes of several rows (linear_some.cuh), and from plane to plane of them.
DEVICE int32_t x_plane(const struct stream *s)
{
    return s->tiles * 4 * (COLUMNS / 2);
}

DEVICE float4 *x_numbers(const struct stream *s)
{
    return (float4 *)(shared_x() + COLUMNS * x_pairs(s) * 64);
}

#endif

#endif
