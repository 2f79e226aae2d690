// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/rope/rope_simd.h"

ROPE_SIMD(split_half, avx512)
ROPE_SIMD(interleaved, avx512)
