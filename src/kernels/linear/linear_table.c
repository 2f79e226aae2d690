// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_kernel.h"

#define X(weight, acts, isa, row_step) weft__linear_fn weft__linear_##weight##_##acts##_##isa;
#include "src/kernels/linear/linear.def"
#undef X

weft__linear_quantize_fn weft__linear_quantize_q8_ref;

// One quantiser per table column: f32 needs none.
#define QUANTIZE_f32(isa) NULL
#define QUANTIZE_q8(isa)  weft__linear_quantize_q8_ref

static const struct weft__linear_kernel rows[] = {
#define X(weight, acts, isa, row_step)                                                             \
    {{"linear", "linear_" #weight "_" #acts "_" #isa, WEFT__ISA_##isa},                            \
     WEFT_##weight,                                                                                \
     WEFT__ACTS_##acts,                                                                            \
     row_step,                                                                                     \
     weft__linear_##weight##_##acts##_##isa,                                                       \
     QUANTIZE_##acts(isa)},
#include "src/kernels/linear/linear.def"
#undef X
};

const struct weft__kernel_table weft__linear_table = {"linear", rows, sizeof rows[0],
                                                      sizeof rows / sizeof rows[0]};
