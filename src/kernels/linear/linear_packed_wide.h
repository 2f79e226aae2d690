// SPDX-License-Identifier: MIT
// Packed weights by many rows of X in bf16 (linear_packed_wide_amx.c).
#ifndef WEFT_KERNELS_LINEAR_PACKED_WIDE_H
#define WEFT_KERNELS_LINEAR_PACKED_WIDE_H

#include "src/kernels/linear/linear_packed.h"

// Of every format that has panels; call->x_tiles is there.
weft__linear_fn weft__linear_packed_wide_amx;

#endif
