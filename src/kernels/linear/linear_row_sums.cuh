// SPDX-License-Identifier: MIT
// Where four lanes have a row each other's columns: ACCUMULATORS are two for a row of X, of rows r and r + 8 of W.
#ifndef WEFT_KERNELS_LINEAR_ROW_SUMS_CUH
#define WEFT_KERNELS_LINEAR_ROW_SUMS_CUH

#include "src/kernels/linear/linear_stream.cuh"

// The sums of the four lanes of a row.
DEVICE void sums_store(const struct stream *s, float *sums, const float acc[ACCUMULATORS])
{
#pragma unroll
    for (int32_t i = 0; i < ACCUMULATORS; i++) {
        float total = warp_sum(acc[i], 4);
        if (s->lane % 4 == 0)
            sums[(s->warp * COLUMNS + i / 2) * SUM_STRIDE + i % 2 * 8 + s->lane / 4] = total;
    }
}

#endif
