// SPDX-License-Identifier: MIT
// Packed weights by a tile of X on the tiles of AMX (linear_packed_few_amx.c).
#ifndef WEFT_KERNELS_LINEAR_PACKED_FEW_AMX_H
#define WEFT_KERNELS_LINEAR_PACKED_FEW_AMX_H

#include "src/kernels/linear/linear_packed.h"

enum {
    WEFT__TILED_FEW_LEAST = 12,       // rows of X
    WEFT__TILED_FEW_LEAST_HALVES = 5, // of q2_k and q3_k, which vectors multiply by sixteens
    WEFT__TILED_FEW_MOST = 16,
    WEFT__TILED_FEW_LONGEST = 1 << 14, // columns, whose scales of X are copied
};

static inline bool weft__linear_packed_takes_few(const struct weft__linear_call *call)
{
    const bool halves = call->dtype == WEFT_Q2_K || call->dtype == WEFT_Q3_K;
    return call->batch >= (halves ? WEFT__TILED_FEW_LEAST_HALVES : WEFT__TILED_FEW_LEAST) &&
           call->batch <= WEFT__TILED_FEW_MOST && call->cols <= WEFT__TILED_FEW_LONGEST &&
           !call->invariant && call->dtype != WEFT_Q6_K;
}

// Of every format that has panels but q6_k.
weft__linear_fn weft__linear_packed_few_amx;

#endif
