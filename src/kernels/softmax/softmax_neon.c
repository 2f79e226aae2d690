// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/softmax/softmax_simd.h"

SOFTMAX_SIMD(neon)
