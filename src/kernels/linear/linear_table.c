// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_kernel.h"

// Kernels of the formats that won a measurement.
#define X(weight, acts, isa, row_step) weft__linear_fn weft__linear_##weight##_##acts##_##isa;
#include "src/kernels/linear/linear.def"
#undef X

// Kernels of any format, best first.
#ifdef WEFT__X86
#define ANY_MAP(X, ...)                                                                            \
    X(q8, avx512vnni, 32, __VA_ARGS__)                                                             \
    X(f32, avx512, 16, __VA_ARGS__)                                                                \
    X(q8, avx2, 16, __VA_ARGS__)                                                                   \
    X(f32, avx2, 16, __VA_ARGS__)
#elif defined(WEFT__ARM64)
#define ANY_MAP(X, ...)                                                                            \
    X(q8, neondot, 16, __VA_ARGS__)                                                                \
    X(q8, neon, 16, __VA_ARGS__)                                                                   \
    X(f32, neon, 16, __VA_ARGS__)
#else
#define ANY_MAP(X, ...)
#endif

#define DECLARE_ANY(acts, isa, row_step, ...) weft__linear_fn weft__linear_any_##acts##_##isa;
ANY_MAP(DECLARE_ANY, )

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    weft__linear_fn weft__linear_##ID##_f32_ref, weft__linear_##ID##_q8_ref;
#include <weft/formats.def>
#undef WEFT_FORMAT

// Activations are rounded for blocks, not for plain elements. What may lie beside the codes of a format
// is known to the reference, to plain formats of the kernels of any, and to theirs of MLX.
#define IS_MLX(ID) (WEFT_##ID >= WEFT_MLX_Q2_G32 && WEFT_##ID <= WEFT_MLX_Q8_G128)
#define REFERENCE(ID, name, acts)                                                                  \
    {{"linear", "linear_" name "_" #acts "_ref", WEFT__ISA_ref},                                   \
     WEFT_##ID,                                                                                    \
     WEFT__ACTS_##acts,                                                                            \
     1,                                                                                            \
     true,                                                                                         \
     weft__linear_##ID##_##acts##_ref},
#define ANY_f32(ID, name, elems, isa, row_step)                                                    \
    {{"linear", "linear_" name "_f32_any_" #isa, WEFT__ISA_##isa},                                 \
     WEFT_##ID,                                                                                    \
     WEFT__ACTS_f32,                                                                               \
     row_step,                                                                                     \
     (elems) == 1 || IS_MLX(ID),                                                                   \
     weft__linear_any_f32_##isa},
#define ANY_ROUNDED(ID, name, isa, row_step)                                                       \
    {{"linear", "linear_" name "_q8_any_" #isa, WEFT__ISA_##isa},                                  \
     WEFT_##ID,                                                                                    \
     WEFT__ACTS_q8,                                                                                \
     row_step,                                                                                     \
     IS_MLX(ID),                                                                                   \
     weft__linear_any_q8_##isa},
#define ANY_q8(ID, name, elems, isa, row_step)        ROUNDED_##elems(ANY_ROUNDED(ID, name, isa, row_step))
#define ANY_ROW(acts, isa, row_step, ID, name, elems) ANY_##acts(ID, name, elems, isa, row_step)
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
     false,                                                                                        \
     weft__linear_##weight##_##acts##_##isa},
#include "src/kernels/linear/linear.def"
#undef X
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    ANY_MAP(ANY_ROW, ID, name, block_elems)
#include <weft/formats.def>
#undef WEFT_FORMAT
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    REFERENCE(ID, name, f32)                                                                       \
    ROUNDED_##block_elems(REFERENCE(ID, name, q8))
#include <weft/formats.def>
#undef WEFT_FORMAT
};

const struct weft__kernel_table weft__linear_table = {"linear", rows, sizeof rows[0],
                                                      sizeof rows / sizeof rows[0]};
