// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"
#include "src/kernels/rope/rope_simd.h"

ROPE_SIMD(split_half, avx2)
ROPE_SIMD(interleaved, avx2)
