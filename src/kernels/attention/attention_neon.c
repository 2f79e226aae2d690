// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"

enum {
    DIRECT_SUMS = 16,
    UNIT_SUMS = 16,
    DIRECT_GROUP = 4,
    VALUE_STEP = 4,
    WEIGHED_ROWS = 1,
    PANEL_VECTORS = 4
};

#include "src/kernels/attention/attention_simd.h"

ATTENTIONS(neon)
