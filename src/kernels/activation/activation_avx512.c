// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"

#include "src/kernels/activation/activation_simd.h"

ACTIVATION_SIMD(silu, avx512)
ACTIVATION_SIMD(gelu, avx512)
ACTIVATION_SIMD(gelu_tanh, avx512)
ACTIVATION_SIMD(softcap, avx512)
ACTIVATION_SIMD(none, avx512)
