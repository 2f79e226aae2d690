// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"

#include "src/kernels/activation/activation_simd.h"

ACTIVATION_SIMD(silu, neon)
ACTIVATION_SIMD(gelu, neon)
ACTIVATION_SIMD(gelu_tanh, neon)
ACTIVATION_SIMD(softcap, neon)
ACTIVATION_SIMD(none, neon)
