// SPDX-License-Identifier: MIT
#include "src/kernels/probe/probe_kernel.h"

#define X(kind, name, isa) weft__probe_fn weft__probe_##name##_##isa;
#include "src/kernels/probe/probe.def"
#undef X

static const struct weft__probe_kernel rows[] = {
#define X(kind, name, isa)                                                                         \
    {{"probe", "probe_" #name "_" #isa, WEFT__ISA_##isa},                                          \
     WEFT_PROBE_##kind,                                                                            \
     weft__probe_##name##_##isa},
#include "src/kernels/probe/probe.def"
#undef X
};

const struct weft__kernel_table weft__probe_table = {"probe", rows, sizeof rows[0],
                                                     sizeof rows / sizeof rows[0]};
