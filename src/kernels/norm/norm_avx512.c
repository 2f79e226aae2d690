// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/norm/norm_simd.h"

NORM_SIMD(rms, avx512)
NORM_SIMD(layer, avx512)
