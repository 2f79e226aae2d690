// SPDX-License-Identifier: MIT
// What the host and the device text of linear's products for many rows of X agree on.
//
// X in two bytes a number, made by weft_linear_gemm_x: pieces of 64 columns, each of all rows,
//
//      [piece][row][64]     pieces: an even number, padded with zeros; rows padded to 8
//
// so that any eight rows of a piece are B of wgmma (src/kernels/cuda/wgmma.cuh). In a row of a piece, 16 columns take
// two places of 16 bytes, at 2 i the even ones, at 2 i + 1 the odd ones: the order in which bytes of a packed tile become
// pairs of 16-bit numbers. For plain weights they take columns 32 (i / 2) + 4 (i % 2) + 8 c + 0, 1 and + 2, 3, c = 0..3:
// so a lane's 16 bytes of a row of W are what it multiplies. f16: a row is multiplied by a power of two that brings its largest number to [2^14, 2^15);
// its inverse stands in `scales`, as do factors of a norm.
#ifndef WEFT_KERNELS_LINEAR_GEMM_DEVICE_H
#define WEFT_KERNELS_LINEAR_GEMM_DEVICE_H

#include <stdint.h>

enum { WEFT__LINEAR_GEMM_TILE_ROWS = 128 }; // rows of W of a result

static inline int64_t weft__linear_gemm_x_bytes(int64_t rows, int64_t cols)
{
    return (cols + 127) / 128 * 2 * ((rows + 7) / 8 * 8) * 128;
}

struct weft__linear_gemm_x_args {
    const void *x; // rows of WEFT_X_DTYPE, or rounded rows (linear_device.h)
    int64_t x_stride;
    const float *norm_weight; // of numbers: x * (weight + plus) is what is multiplied; or NULL
    void *pieces;
    float *scales; // [rows]
    int32_t batch, cols;
    int32_t norm; // results are multiplied by 1/rms of the row of X
    float norm_eps, norm_weight_plus;
};

struct weft__linear_gemm_args {
    const void *weight;          // packed tiles (linear_device.h), or plain rows
    int64_t weight_stride_bytes; // of plain rows
    const void *pieces;
    const float *scales;
    const float *bias;    // or NULL
    const void *residual; // or NULL
    void *y;
    int64_t residual_stride, y_stride;
    int32_t batch, rows, cols;
    int32_t row_tiles, tiles; // of the results: tiles of rows of W; of both
    float alpha;
};

#endif
