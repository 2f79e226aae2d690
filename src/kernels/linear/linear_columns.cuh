// SPDX-License-Identifier: MIT
// The columns of a row of X: the function constant WEFT_COLS, so that addresses are sums with constants and no tile is partial,
// or, where that is 0, what a launch is told.
#ifndef WEFT_KERNELS_LINEAR_COLUMNS_CUH
#define WEFT_KERNELS_LINEAR_COLUMNS_CUH

#include "src/kernels/cuda/types.cuh"
#include "src/kernels/linear/linear_device.h"

DEVICE int32_t columns_of(const struct weft__linear_device_args *args)
{
    return WEFT_COLS ? WEFT_COLS : args->cols;
}

#endif
