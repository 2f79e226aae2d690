// SPDX-License-Identifier: MIT
// Rows of W of any format as a file has it become f16, scales and biases in them, packed: what a library multiplies. A warp
// takes STEP blocks of a row (linear_rows.cuh, whose function constants these are).
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rows.cuh"

enum { WARPS = WEFT__LINEAR_WIDEN_WARPS(ELEMS) };

// Grid (columns, rows).
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    weft_linear_widen(const __grid_constant__ struct weft__linear_widen_args args)
{
    __shared__ float all[WARPS][DECODED];
    const int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    const int32_t first = ((int32_t)blockIdx.x * WARPS + warp) * STEP,
                  row = args.first_row + (int32_t)blockIdx.y;
    const int32_t here = min(args.cols / ELEMS - first, (int32_t)STEP);
    const uint8_t *weight = (const uint8_t *)args.weight + row * args.weight_stride_bytes;
    float *decoded = all[warp];
    struct row_planes planes = {args.scales, args.biases};
#if SCALE_DTYPE
    planes.first = row / args.scale_rows * args.scale_stride;
    planes.scale_cols = args.scale_cols;
#endif
    let_next_start();
    step_decode(weight, first, here, lane, decoded);
    __syncwarp();
    wait_for_previous(); // which may read what is written here
    uint32_t *to =
        (uint32_t *)args.to + ((int64_t)blockIdx.y * args.cols + (int64_t)first * ELEMS) / 2;
    for (int32_t i = lane; 2 * i < here * ELEMS; i += WARP) {
        const int32_t col = first * ELEMS + 2 * i, at = 2 * i / PIECE_ELEMS + 2 * i;
        to[i] = floats_f16x2(with_planes(&planes, decoded[at], col),
                             with_planes(&planes, decoded[at + 1], col + 1));
    }
}
