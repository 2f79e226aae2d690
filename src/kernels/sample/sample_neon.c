// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/sample/sample_simd.h"

SAMPLE_SELECT(neon)
