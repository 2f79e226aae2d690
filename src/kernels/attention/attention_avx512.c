// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"

enum { DIRECT_SUMS = 16, DIRECT_GROUP = 8, PANEL_VECTORS = 4 };

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(avx512)
