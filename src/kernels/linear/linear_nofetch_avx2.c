// SPDX-License-Identifier: MIT
// The kernels for a few rows of X without fetching rows ahead: what the choice is worth (weft bench linear --ablate).
#define WEFT__LINEAR_ACTS  q8_nofetch
#define WEFT__LINEAR_FETCH false

#include "src/kernels/linear/linear_q8_avx2.c"
