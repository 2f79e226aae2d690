// SPDX-License-Identifier: MIT
#include "src/kernels/pages/pages_kernel.h"

#define X(isa) weft__pages_fn weft__pages_##isa;
#include "src/kernels/pages/pages.def"
#undef X

static const struct weft__pages_kernel rows[] = {
#define X(isa) {{"pages", "pages_" #isa, WEFT__ISA_##isa}, weft__pages_##isa},
#include "src/kernels/pages/pages.def"
#undef X
};

const struct weft__kernel_table weft__pages_table = {"pages", rows, sizeof rows[0],
                                                     sizeof rows / sizeof rows[0]};
