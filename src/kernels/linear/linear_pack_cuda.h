// SPDX-License-Identifier: MIT
// Packing on CUDA: weights come to the device in slabs of whole rows, and a launch lays each out in tiles (linear_device.h).
#ifndef WEFT_KERNELS_LINEAR_PACK_CUDA_H
#define WEFT_KERNELS_LINEAR_PACK_CUDA_H

#include "src/kernels/cuda/launch.h"
#include "src/kernels/linear/linear_device.h"

struct weft__linear_slab {
    const void *from; // its first row, on the device
    int64_t stride_bytes;
    const void *scales, *biases; // its rows', or NULL: 1, 0
    int64_t scales_stride_bytes;
    int32_t first_row, rows; // the former a multiple of 16
    void *packed;            // the part's
};

// kernel: linear_pack.cu among those of the plan.
static inline void weft__linear_pack_step(int32_t kernel, int64_t cols,
                                          const struct weft__linear_slab *slab,
                                          struct weft__cuda_step *step)
{
    const struct weft__linear_pack_args args = {.weight = slab->from,
                                                .scales = slab->scales,
                                                .biases = slab->biases,
                                                .scales_stride_bytes = slab->scales_stride_bytes,
                                                .packed = slab->packed,
                                                .weight_stride_bytes = slab->stride_bytes,
                                                .first_row = slab->first_row,
                                                .rows = slab->rows,
                                                .cols = (int32_t)cols};
    weft__cuda_step(step, kernel, (uint32_t)((slab->rows + 15) / 16),
                    (uint32_t)((cols + 255) / 256), 128, &args, sizeof args);
}

// Bytes of a block in tiles: those of a file's, but for tq1_0, whose digits have two bits each there, as tq2_0's.
static inline int32_t weft__linear_tile_block_bytes(weft_dtype format)
{
    return weft_dtype_block_bytes(format == WEFT_TQ1_0 ? WEFT_TQ2_0 : format);
}

#endif
