// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_bytes_avx2.h"

#include "src/kernels/linear/linear_groups.h"

WEFT__ANY_FORMATS(avx2)
