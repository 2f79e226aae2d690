// SPDX-License-Identifier: MIT
#include "src/kernels/route/route_kernel.h"

#define X(isa) weft__route_fn weft__route_##isa;
#include "src/kernels/route/route.def"
#undef X

static const struct weft__route_kernel rows[] = {
#define X(isa) {{"route", "route_" #isa, WEFT__ISA_##isa}, weft__route_##isa},
#include "src/kernels/route/route.def"
#undef X
};

const struct weft__kernel_table weft__route_table = {"route", rows, sizeof rows[0],
                                                     sizeof rows / sizeof rows[0]};
