// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"

#include "src/kernels/experts/experts_simd.h"

EXPERTS_SIMD(avx2)
