// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/norm/norm_simd.h"

NORM_SIMD(rms, neon)
NORM_SIMD(layer, neon)
