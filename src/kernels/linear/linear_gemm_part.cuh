// SPDX-License-Identifier: MIT
// The parts of a launch by slices of the columns, one behind another in units of rows of W (linear_gemm_device.h).
#ifndef WEFT_KERNELS_LINEAR_GEMM_PART_CUH
#define WEFT_KERNELS_LINEAR_GEMM_PART_CUH

#include "src/kernels/linear/linear_gemm_device.h"

// Whose unit it is.
DEVICE int32_t part_of(const struct weft__linear_slice_args *args, int32_t unit)
{
    int32_t part = 0;
#pragma unroll 1
    while (part + 1 < args->num_parts && unit >= args->part[part + 1].first_unit)
        part++;
    return part;
}

#endif
