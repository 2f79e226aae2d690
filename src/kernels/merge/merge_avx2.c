// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/merge/merge_simd.h"

MERGE_SIMD(avx2)
