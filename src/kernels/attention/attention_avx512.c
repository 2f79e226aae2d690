// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"

enum {
    DIRECT_SUMS = 16,
    UNIT_SUMS = 8,
    DIRECT_GROUP = 16,
    VALUE_STEP = 4,
    WEIGHED_ROWS = 4,
    PANEL_VECTORS = 4,
};

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(avx512)
