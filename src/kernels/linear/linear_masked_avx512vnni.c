// SPDX-License-Identifier: MIT
// The kernels for a few rows of X with nibbles unpacked by masks alone, their sums shifted: what the choice is
// worth (weft bench linear --ablate).
#define WEFT__LINEAR_ACTS   q8_masked
#define WEFT__LINEAR_MASKED 1

#include "src/kernels/linear/linear_q8_avx512vnni.c"
