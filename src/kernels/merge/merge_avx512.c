// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/merge/merge_simd.h"

MERGE_SIMD(avx512)
