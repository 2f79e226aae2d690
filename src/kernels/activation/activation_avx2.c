// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"

#include "src/kernels/activation/activation_simd.h"

ACTIVATION_SIMD(silu, avx2)
ACTIVATION_SIMD(gelu, avx2)
ACTIVATION_SIMD(gelu_tanh, avx2)
ACTIVATION_SIMD(softcap, avx2)
ACTIVATION_SIMD(none, avx2)
