// SPDX-License-Identifier: MIT
#include "src/kernels/experts/experts_kernel.h"

#define X(isa)                                                                                     \
    weft__experts_sum_fn weft__experts_sum_##isa;                                                  \
    weft__experts_clamp_fn weft__experts_clamp_##isa;
#include "src/kernels/experts/experts.def"
#undef X

static const struct weft__experts_kernel rows[] = {
#define X(isa)                                                                                     \
    {{"experts", "experts_" #isa, WEFT__ISA_##isa},                                                \
     weft__experts_sum_##isa,                                                                      \
     weft__experts_clamp_##isa},
#include "src/kernels/experts/experts.def"
#undef X
};

const struct weft__kernel_table weft__experts_table = {"experts", rows, sizeof rows[0],
                                                       sizeof rows / sizeof rows[0]};
