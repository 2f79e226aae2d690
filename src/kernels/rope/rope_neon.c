// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/rope/rope_simd.h"

ROPE_SIMD(split_half, neon)
ROPE_SIMD(interleaved, neon)
