// SPDX-License-Identifier: MIT
#include "src/kernels/merge/merge_kernel.h"

#define X(isa) weft__merge_fn weft__merge_##isa;
#include "src/kernels/merge/merge.def"
#undef X

static const struct weft__merge_kernel rows[] = {
#define X(isa) {{"merge", "merge_" #isa, WEFT__ISA_##isa}, weft__merge_##isa},
#include "src/kernels/merge/merge.def"
#undef X
};

const struct weft__kernel_table weft__merge_table = {"merge", rows, sizeof rows[0],
                                                     sizeof rows / sizeof rows[0]};
