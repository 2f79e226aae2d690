// SPDX-License-Identifier: MIT
#include "src/kernels/softmax/softmax_kernel.h"

#define X(isa)                                                                                     \
    weft__softmax_fn weft__softmax_##isa;                                                          \
    extern const struct weft__softmax_passes weft__softmax_passes_##isa;
#include "src/kernels/softmax/softmax.def"
#undef X

static const struct weft__softmax_kernel rows[] = {
#define X(isa)                                                                                     \
    {{"softmax", "softmax_" #isa, WEFT__ISA_##isa},                                                \
     weft__softmax_##isa,                                                                          \
     &weft__softmax_passes_##isa},
#include "src/kernels/softmax/softmax.def"
#undef X
};

const struct weft__kernel_table weft__softmax_table = {"softmax", rows, sizeof rows[0],
                                                       sizeof rows / sizeof rows[0]};
