// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/linear/linear_bytes_neon.h"

#define weft__dot16 vdotq_s32

#include "src/kernels/linear/linear_dot_neon.h"
#include "src/kernels/linear/linear_q8.h"

WEFT__LINEAR_Q8_ALL(neondot)
