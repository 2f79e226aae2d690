// SPDX-License-Identifier: MIT
#include "src/kernels/probe/probe_kernel.h"

const volatile float weft__probe_half = 0.5f, weft__probe_one = 1;
const volatile int8_t weft__probe_zero = 0, weft__probe_unit = 1;

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
