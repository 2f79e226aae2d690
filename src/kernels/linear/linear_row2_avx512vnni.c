// SPDX-License-Identifier: MIT
// The kernels for a few rows of X with two rows of W for each load of X: what the choice is worth (weft bench
// linear --ablate).
#define WEFT__LINEAR_ACTS  q8_row2
#define WEFT__LINEAR_SHARE 2

#include "src/kernels/linear/linear_q8_avx512vnni.c"
