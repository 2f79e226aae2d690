// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/norm/norm_simd.h"

NORM_SIMD(rms, avx2)
NORM_SIMD(layer, avx2)
