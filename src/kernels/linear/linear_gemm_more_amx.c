// SPDX-License-Identifier: MIT
#define LINEAR_GEMM_ISA amx
#include "src/kernels/linear/linear_gemm_more_avx512.h"
