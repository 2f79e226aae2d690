// SPDX-License-Identifier: MIT
#include "src/kernels/sample/sample_kernel.h"

#define X(method, isa) weft__sample_fn weft__sample_##method##_##isa;
#include "src/kernels/sample/sample.def"
#undef X

static const struct weft__sample_kernel rows[] = {
#define X(method, isa)                                                                             \
    {{"sample", "sample_" #method "_" #isa, WEFT__ISA_##isa}, weft__sample_##method##_##isa},
#include "src/kernels/sample/sample.def"
#undef X
};

const struct weft__kernel_table weft__sample_table = {"sample", rows, sizeof rows[0],
                                                      sizeof rows / sizeof rows[0]};
