// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_kernel.h"

#define X(weight, acts, isa, row_step) weft__linear_fn weft__linear_##weight##_##acts##_##isa;
#include "src/kernels/linear/linear.def"
#undef X

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    weft__linear_fn weft__linear_##ID##_f32_ref, weft__linear_##ID##_q8_ref;
#include <weft/formats.def>
#undef WEFT_FORMAT

// Rows of the reference; activations are rounded for blocks, not for plain elements.
#define REFERENCE(ID, name, acts)                                                                  \
    {{"linear", "linear_" name "_" #acts "_ref", WEFT__ISA_ref},                                   \
     WEFT_##ID,                                                                                    \
     WEFT__ACTS_##acts,                                                                            \
     1,                                                                                            \
     weft__linear_##ID##_##acts##_ref},
#define ROUNDED_1(...)
#define ROUNDED_32(...)  __VA_ARGS__
#define ROUNDED_64(...)  __VA_ARGS__
#define ROUNDED_128(...) __VA_ARGS__
#define ROUNDED_256(...) __VA_ARGS__

static const struct weft__linear_kernel rows[] = {
#define X(weight, acts, isa, row_step)                                                             \
    {{"linear", "linear_" WEFT__NAME_##weight "_" #acts "_" #isa, WEFT__ISA_##isa},                \
     WEFT_##weight,                                                                                \
     WEFT__ACTS_##acts,                                                                            \
     row_step,                                                                                     \
     weft__linear_##weight##_##acts##_##isa},
#include "src/kernels/linear/linear.def"
#undef X
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    REFERENCE(ID, name, f32)                                                                       \
    ROUNDED_##block_elems(REFERENCE(ID, name, q8))
#include <weft/formats.def>
#undef WEFT_FORMAT
};

const struct weft__kernel_table weft__linear_table = {"linear", rows, sizeof rows[0],
                                                      sizeof rows / sizeof rows[0]};
