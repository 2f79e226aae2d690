// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/merge/merge_simd.h"

MERGE_SIMD(neon)
