// SPDX-License-Identifier: MIT
// What follows a product of weights as a file has them, in experts.cu and experts_tile.cu: what adapters add, the choice's
// weight, bias, function. Function constants: experts.cu.
#ifndef WEFT_KERNELS_EXPERTS_FINISH_CUH
#define WEFT_KERNELS_EXPERTS_FINISH_CUH

#include "src/kernels/experts/experts_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_rows.cuh"
#include "src/kernels/linear/linear_share.cuh"

// Of row `row` of an expert's matrix.
DEVICE struct row_planes planes_of(const struct weft__experts_product_args *args, int32_t expert,
                                   int32_t row)
{
    struct row_planes planes = {args->scales, args->biases};
    (void)expert, (void)row;
#if SCALE_DTYPE
    planes.first = expert * args->expert_scale_stride + row / args->scale_rows * args->scale_stride;
    planes.scale_cols = args->scale_cols;
#endif
    return planes;
}

// Element (to, row) of Y from its sum.
DEVICE void finish_product(const struct weft__experts_product_args *args, int32_t expert,
                           int32_t to, int32_t row, float sum)
{
    const int64_t at = (int64_t)to * args->rows + row;
#if ADAPTS
    if (args->to.adapted[0])
        sum += args->to.adapted[0][at];
#endif
#if WEIGHS
    sum *= share_weight(&args->to, to);
#endif
    float out = sum + (args->bias ? args->bias[(int64_t)expert * args->rows + row] : 0.0f);
#if FUNCTION && ALONE
    out = gated<FUNCTION>(out, 1.0f);
#elif FUNCTION == 4
    out = gated_clamped(args->gate[at], out, args->to.clamp_limit, args->to.clamp_slope);
#elif FUNCTION
    out = gated<FUNCTION>(args->gate[at], out);
#endif
    args->y[at] = out;
}

#endif
