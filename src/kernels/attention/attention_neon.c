// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"

enum { DIRECT_KEYS = 4, DIRECT_VECTORS = 4, PANEL_VECTORS = 4 };

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(neon)
