// SPDX-License-Identifier: MIT
#define LINEAR_GEMM_ISA avx512vnni
#include "src/kernels/linear/linear_gemm_common_avx512.h"
