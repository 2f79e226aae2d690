// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx2.h"

enum {
    DIRECT_SUMS = 8,
    UNIT_SUMS = 8,
    DIRECT_GROUP = 8,
    VALUE_STEP = 8,
    WEIGHED_ROWS = 1,
    PANEL_VECTORS = 2
};

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(avx2)
