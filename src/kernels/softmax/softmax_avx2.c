// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/softmax/softmax_simd.h"

SOFTMAX_SIMD(avx2)
