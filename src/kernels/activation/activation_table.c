// SPDX-License-Identifier: MIT
#include "src/kernels/activation/activation_kernel.h"

#define X(kind, value, isa) weft__activation_fn weft__activation_##kind##_##isa;
#include "src/kernels/activation/activation.def"
#undef X

static const struct weft__activation_kernel rows[] = {
#define X(kind, value, isa)                                                                        \
    {{"activation", "activation_" #kind "_" #isa, WEFT__ISA_##isa},                                \
     value,                                                                                        \
     weft__activation_##kind##_##isa},
#include "src/kernels/activation/activation.def"
#undef X
};

const struct weft__kernel_table weft__activation_table = {"activation", rows, sizeof rows[0],
                                                          sizeof rows / sizeof rows[0]};
