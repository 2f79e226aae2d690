// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/sample/sample_simd.h"

SAMPLE_SELECT(avx2)
