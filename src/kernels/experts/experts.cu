// SPDX-License-Identifier: MIT
// One matrix of all experts times the rows of the choices that went to them, W as a file has it: a warp a row of W
// and a few places of one expert (linear_rows.cuh), so that the weights of an expert that nobody chose are not read.
//
// Function constants besides those of linear_rows.cuh: FUNCTION (as WEFT_GATE of linear_stream.cuh), ALONE (the
// function is of this product alone), WEIGHS (x is multiplied by its choice's weight), ADAPTS (something may be
// added to the products).
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/experts/experts_device.h"
#include "src/kernels/experts/experts_finish.cuh"
#include "src/kernels/linear/linear_rows.cuh"
#include "src/kernels/linear/linear_share.cuh"

enum { COLUMNS = WEFT__EXPERTS_COLUMNS, WARPS = WEFT__EXPERTS_WARPS(ELEMS) };

// Grid (shares, rows of W over the warps of a block).
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    weft_experts(const __grid_constant__ struct weft__experts_product_args args)
{
    __shared__ float decoded[WARPS][DECODED];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    const int32_t row = (int32_t)blockIdx.y * WARPS + warp;
    if (row >= args.rows)
        return;
    wait_for_previous();
    let_next_start();
    const struct share share = find_share(&args.to, (int32_t)blockIdx.x, COLUMNS);
    if (share.count <= 0)
        return;
    const float *x[COLUMNS];
    int32_t to[COLUMNS];
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++) {
        const struct share_row row_of = share_row_of(&args.to, &share, n);
        x[n] = args.x + row_of.x * args.x_stride;
        to[n] = row_of.y;
    }
    const struct row_planes planes = planes_of(&args, share.expert, row);
    float sum[COLUMNS];
    row_products<COLUMNS>((const uint8_t *)args.weight + share.expert * args.expert_stride_bytes +
                              row * args.weight_stride_bytes,
                          &planes, args.cols, share.count,
                          [&](int32_t n, int32_t col) { return x[n][col]; }, decoded[warp], sum);
#pragma unroll
    for (int32_t n = 0; n < COLUMNS; n++)
        if (lane == 0 && n < share.count)
            finish_product(&args, share.expert, to[n], row, sum[n]);
}
