// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"

enum { DIRECT_SUMS = 8, DIRECT_GROUP = 8, PANEL_VECTORS = 2 };

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(avx2)
