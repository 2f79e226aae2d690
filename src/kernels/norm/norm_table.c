// SPDX-License-Identifier: MIT
#include "src/kernels/norm/norm_kernel.h"

#define X(kind, value, isa) weft__norm_fn weft__norm_##kind##_##isa;
#include "src/kernels/norm/norm.def"
#undef X

static const struct weft__norm_kernel rows[] = {
#define X(kind, value, isa)                                                                        \
    {{"norm", "norm_" #kind "_" #isa, WEFT__ISA_##isa}, value, weft__norm_##kind##_##isa},
#include "src/kernels/norm/norm.def"
#undef X
};

const struct weft__kernel_table weft__norm_table = {"norm", rows, sizeof rows[0],
                                                    sizeof rows / sizeof rows[0]};
