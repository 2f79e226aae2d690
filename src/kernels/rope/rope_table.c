// SPDX-License-Identifier: MIT
#include "src/kernels/rope/rope_kernel.h"

#define X(style, value, isa) weft__rope_rotate_fn weft__rope_##style##_##isa;
#include "src/kernels/rope/rope.def"
#undef X

static const struct weft__rope_kernel rows[] = {
#define X(style, value, isa)                                                                       \
    {{"rope", "rope_" #style "_" #isa, WEFT__ISA_##isa}, value, weft__rope_##style##_##isa},
#include "src/kernels/rope/rope.def"
#undef X
};

const struct weft__kernel_table weft__rope_table = {"rope", rows, sizeof rows[0],
                                                    sizeof rows / sizeof rows[0]};
