// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"

enum { DIRECT_KEYS = 2, DIRECT_VECTORS = 2, PANEL_VECTORS = 2 };

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(avx2)
