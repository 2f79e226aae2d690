// SPDX-License-Identifier: MIT
#ifndef WEFT_CHECK_BENCH_H
#define WEFT_CHECK_BENCH_H

#include <stdbool.h>

#include "src/kernels/kernel.h"

// Measures a kernel at the shapes of a 7-billion-parameter model, as `weft bench` does, and prints a row
// per shape: linear layers with 1 and 8 rows of activations, attention of one query over 4096 keys.
// Kernels of other operations are passed over. Returns an exit status.
int check_bench(const struct weft__kernel *row, bool json);

#endif
