// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/sample/sample_simd.h"

SAMPLE_SELECT(avx512)
