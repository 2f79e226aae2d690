// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_kernel.h"

weft__linear_quantize_fn weft__linear_quantize_ref;
#if defined(WEFT__X86)
weft__linear_quantize_fn weft__linear_quantize_avx2;
weft__linear_quantize_fn weft__linear_quantize_avx512;
#elif defined(WEFT__ARM64)
weft__linear_quantize_fn weft__linear_quantize_neon;
#endif

// For kernels that decode a block in the order of its columns.
static const struct weft__q8_layout weft__q8_layout_plain = {{0, 1, 2, 3, 4, 5, 6, 7}, 32, 0};

// For kernels that decode 128 columns into two vectors of 64 and use unsigned weights: the sums take
// out the offset.
//      q8_0, q4_0   first halves of four blocks, then second halves
//      q4_k         low nibbles of 64 bytes: groups 0 and 2; high nibbles: groups 1 and 3
// AVX2 keeps the columns in order and takes the offset out in the same way.
#ifdef WEFT__X86
static const struct weft__q8_layout weft__q8_layout_avx2_q4_0 = {{0, 1, 2, 3, 4, 5, 6, 7}, 32, -8};
static const struct weft__q8_layout weft__q8_layout_avx2_q6_k = {{0, 1, 2, 3, 4, 5, 6, 7}, 16, -32};
static const struct weft__q8_layout weft__q8_layout_vnni_q8_0 = {
    {0, 4, 1, 5, 2, 6, 3, 7}, 32, -128};
static const struct weft__q8_layout weft__q8_layout_vnni_q4_0 = {{0, 4, 1, 5, 2, 6, 3, 7}, 32, -8};
static const struct weft__q8_layout weft__q8_layout_vnni_q4_k = {{0, 1, 4, 5, 2, 3, 6, 7}, 32, 0};
static const struct weft__q8_layout weft__q8_layout_vnni_q6_k = {{0, 1, 2, 3, 4, 5, 6, 7}, 16, -32};
#endif

#define X(weight, acts, isa, row_step, quantizer, layout)                                          \
    weft__linear_fn weft__linear_##weight##_##acts##_##isa;
#include "src/kernels/linear/linear.def"
#undef X

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    weft__linear_fn weft__linear_##ID##_f32_ref, weft__linear_##ID##_q8_ref;
#include <weft/formats.def>
#undef WEFT_FORMAT

#define QUANTIZE_f32(quantizer) NULL
#define QUANTIZE_q8(quantizer)  weft__linear_quantize_##quantizer
#define LAYOUT_f32(layout)      NULL
#define LAYOUT_q8(layout)       &weft__q8_layout_##layout

// Rows of the reference; activations are rounded for blocks, not for plain elements.
#define REFERENCE(ID, name, acts)                                                                  \
    {{"linear", "linear_" name "_" #acts "_ref", WEFT__ISA_ref},                                   \
     WEFT_##ID,                                                                                    \
     WEFT__ACTS_##acts,                                                                            \
     1,                                                                                            \
     weft__linear_##ID##_##acts##_ref,                                                             \
     QUANTIZE_##acts(ref),                                                                         \
     LAYOUT_##acts(plain)},
#define ROUNDED_1(...)
#define ROUNDED_32(...)  __VA_ARGS__
#define ROUNDED_64(...)  __VA_ARGS__
#define ROUNDED_128(...) __VA_ARGS__
#define ROUNDED_256(...) __VA_ARGS__

static const struct weft__linear_kernel rows[] = {
#define X(weight, acts, isa, row_step, quantizer, layout)                                          \
    {{"linear", "linear_" WEFT__NAME_##weight "_" #acts "_" #isa, WEFT__ISA_##isa},                \
     WEFT_##weight,                                                                                \
     WEFT__ACTS_##acts,                                                                            \
     row_step,                                                                                     \
     weft__linear_##weight##_##acts##_##isa,                                                       \
     QUANTIZE_##acts(quantizer),                                                                   \
     LAYOUT_##acts(layout)},
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
