// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"

#include "src/kernels/experts/experts_simd.h"

EXPERTS_SIMD(neon)
