// SPDX-License-Identifier: MIT
#ifndef WEFT_KERNELS_LINEAR_GEMM_AVX2_H
#define WEFT_KERNELS_LINEAR_GEMM_AVX2_H

#include "src/kernels/linear/linear_kernel.h"

// For many rows of X, unless a row must not depend on the batch.
weft__linear_fn weft__linear_gemm_Q8_0_avx2;
weft__linear_fn weft__linear_gemm_Q4_0_avx2;
weft__linear_fn weft__linear_gemm_Q4_K_avx2;
weft__linear_fn weft__linear_gemm_Q6_K_avx2;
weft__linear_fn weft__linear_gemm_any_avx2;

#endif
