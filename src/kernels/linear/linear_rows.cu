// SPDX-License-Identifier: MIT
// Y = X W^T for W of any format as a file has it: a warp a row of W, the decoders of src/formats/ themselves,
// a block a lane, through shared memory. What formats without tiles and weights that nobody packed run on:
// right for all, fast for none.
//
// Function constants: FORMAT, ELEMS, BYTES (of a block), ROUNDED (X is int8 per 32), SCALE_DTYPE (of scales
// and biases beside the codes; 0: there are none).
#define _Static_assert static_assert
#include "src/formats/formats.h"
#include "src/formats/iq_grids.c"
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"

enum {
    COLUMNS = 4,                             // rows of X a pass
    FOLD = ELEMS >= 256 ? 1 : 256 / (ELEMS), // steps whose products make a sum of their own
};

DEVICE void decode(const void *block, float *y)
{
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    if (FORMAT == value)                                                                           \
        weft__decode_##ID(block, y);
#include <weft/formats.def>
#undef WEFT_FORMAT
}

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

// w = code * scale + bias
DEVICE float with_planes(const struct weft__linear_rows_args *args, float code, int32_t row,
                         int32_t col)
{
#if SCALE_DTYPE
    int64_t at = row / args->scale_rows * args->scale_stride + col / args->scale_cols;
    float scale = args->scales ? element<SCALE_DTYPE>(args->scales, at) : 1.0f;
    return code * scale + (args->biases ? element<SCALE_DTYPE>(args->biases, at) : 0.0f);
#else
    (void)args, (void)row, (void)col;
    return code;
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
    // A lane's elements, one more apart than there are: neighbours fall into different banks.
    __shared__ float decoded[32 * (ELEMS + 1)];
    const int32_t lane = (int32_t)threadIdx.x, row = (int32_t)blockIdx.x;
    const int32_t n0 = (int32_t)blockIdx.y * COLUMNS, blocks = args.cols / ELEMS;
    const uint8_t *weight = (const uint8_t *)args.weight + row * args.weight_stride_bytes;
    float total[COLUMNS] = {0}, sum[COLUMNS] = {0};
    wait_for_previous();
    let_next_start();
    for (int32_t first = 0, step = 1; first < blocks; first += WARP, step++) {
        int32_t here = min(blocks - first, WARP);
        __syncwarp();
        if (lane < here)
            decode(weight + (int64_t)(first + lane) * BYTES, decoded + lane * (ELEMS + 1));
        __syncwarp();
        for (int32_t i = lane; i < here * ELEMS; i += WARP) {
            int32_t col = first * ELEMS + i;
            float w = with_planes(&args, decoded[i / ELEMS * (ELEMS + 1) + i % ELEMS], row, col);
#pragma unroll
            for (int32_t n = 0; n < COLUMNS; n++)
                if (n0 + n < args.batch)
                    sum[n] = fmaf(w, x_of(&args, n0 + n, col), sum[n]);
        }
#pragma unroll
        for (int32_t n = 0; n < COLUMNS; n++)
            if (step % FOLD == 0)
                total[n] += sum[n], sum[n] = 0;
    }
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++) {
        if (n0 + n >= args.batch)
            break;
        float dot = warp_sum(total[n] + sum[n], 32);
        float y = args.alpha * (rms_factor(&args, n0 + n) * dot);
        y += args.bias ? args.bias[row] : 0.0f;
        if (args.residual)
            y += args.residual[(n0 + n) * args.residual_stride + row];
        if (lane == 0)
            args.y[(n0 + n) * args.y_stride + row] = y;
    }
}
