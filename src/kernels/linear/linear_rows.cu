// SPDX-License-Identifier: MIT
// Y = X W^T for W of any format as a file has it, a warp a row of W (linear_rows.cuh). What formats without tiles
// and weights that nobody packed run on: right for all, fast for none.
//
// Function constants besides those of linear_rows.cuh: ROUNDED (X is int8 per 32).
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_rows.cuh"

enum { COLUMNS = 4 }; // rows of X a pass

// Row n of X, column `col`.
DEVICE float x_of(const struct weft__linear_rows_args *args, int32_t n, int32_t col)
{
#if ROUNDED
    const uint8_t *row = (const uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols);
    const float *scale =
        (const float *)(row + (args->cols + 63) / 64 * 64 + (int64_t)(col / 32) * 8);
    int8_t code = (int8_t)
        row[col / 64 * 64 + col % 16 / 4 * 16 + col / 32 % 2 * 8 + col / 16 % 2 * 4 + col % 4];
    return (float)code * *scale;
#else
    return ((const float *)args->x)[n * args->x_stride + col];
#endif
}

DEVICE float rms_factor(const struct weft__linear_rows_args *args, int32_t n)
{
#if ROUNDED
    if (args->norm) {
        const float *squares = round_squares(
            (uint8_t *)args->x + n * weft__linear_rounded_stride(args->cols), args->cols);
        float total = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < args->cols / 32; i += WARP)
            total += squares[i];
        return 1.0f / sqrtf(warp_sum(total, 32) / (float)args->cols + args->norm_eps);
    }
#endif
    return 1.0f;
}

// Grid (rows of W, passes over X).
extern "C" __global__ void __launch_bounds__(32)
    weft_linear_rows(const __grid_constant__ struct weft__linear_rows_args args)
{
    __shared__ float decoded[DECODED];
    const int32_t lane = (int32_t)threadIdx.x, row = (int32_t)blockIdx.x;
    const int32_t n0 = (int32_t)blockIdx.y * COLUMNS;
    struct row_planes planes = {args.scales, args.biases};
    float sum[COLUMNS];
#if SCALE_DTYPE
    planes.first = row / args.scale_rows * args.scale_stride;
    planes.scale_cols = args.scale_cols;
#endif
    wait_for_previous();
    let_next_start();
    row_products<COLUMNS>((const uint8_t *)args.weight + row * args.weight_stride_bytes, &planes,
                          args.cols, args.batch - n0,
                          [&](int32_t n, int32_t col) { return x_of(&args, n0 + n, col); }, decoded,
                          sum);
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++) {
        if (n0 + n >= args.batch)
            break;
        float y = args.alpha * (rms_factor(&args, n0 + n) * sum[n]);
        y += args.bias ? args.bias[row] : 0.0f;
        if (args.residual)
            y += args.residual[(n0 + n) * args.residual_stride + row];
        if (lane == 0)
            args.y[(n0 + n) * args.y_stride + row] = y;
    }
}
