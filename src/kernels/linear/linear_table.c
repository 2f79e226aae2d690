// SPDX-License-Identifier: MIT
#include "src/kernels/linear/linear_packed_bf16.h"

enum { MANY = INT32_MAX };

// What rounds activations for a row of the table.
#define NARROW_f32(isa)         NULL
#define NARROW_f32_panel(isa)   NULL
#define NARROW_q8(isa)          NULL
#define NARROW_q8_panel(isa)    NULL
#define NARROW_q8_nofetch(isa)  NULL
#define NARROW_q8_row1(isa)     NULL
#define NARROW_q8_row2(isa)     NULL
#define NARROW_q8_masked(isa)   NULL
#define NARROW_q8_packed(isa)   NULL
#define NARROW_f32_packed(isa)  NULL
#define NARROW_bf16_packed(isa) weft__linear_narrow_##isa
#define NARROW_bf16(isa)        weft__linear_narrow_##isa
#define NARROW_bf16_panel(isa)  weft__linear_narrow_##isa
#define NARROW_bf16_lines(isa)  weft__linear_narrow_##isa
#define NARROW_bf16_rows(isa)   weft__linear_narrow_rows_##isa
weft__narrow_fn weft__linear_narrow_ref, weft__linear_narrow_avx512bf16,
    weft__linear_narrow_rows_avx512bf16, weft__linear_narrow_amx;

// Rows of X that this lays into one another.
#define TURNED_f32(isa)         0
#define TURNED_f32_panel(isa)   0
#define TURNED_q8(isa)          0
#define TURNED_q8_panel(isa)    0
#define TURNED_q8_nofetch(isa)  0
#define TURNED_q8_row1(isa)     0
#define TURNED_q8_row2(isa)     0
#define TURNED_q8_masked(isa)   0
#define TURNED_q8_packed(isa)   0
#define TURNED_f32_packed(isa)  0
#define TURNED_bf16_packed(isa) TURNED_##isa
#define TURNED_bf16_rows(isa)   0
#define TURNED_bf16_panel(isa)  TURNED_##isa
#define TURNED_bf16_lines(isa)  TURNED_##isa
#define TURNED_avx512bf16       WEFT__BF16_SIXES
#define TURNED_amx              WEFT__BF16_ROWS

// What lays weights out for a row of the table.
#define PACK_f32(isa)         NULL
#define PACK_f32_panel(isa)   NULL
#define PACK_q8(isa)          NULL
#define PACK_q8_panel(isa)    NULL
#define PACK_q8_nofetch(isa)  NULL
#define PACK_q8_row1(isa)     NULL
#define PACK_q8_row2(isa)     NULL
#define PACK_q8_masked(isa)   NULL
#define PACK_q8_packed(isa)   weft__linear_pack_avx512vnni
#define PACK_bf16_panel(isa)  NULL
#define PACK_bf16_lines(isa)  NULL
#define PACK_bf16_rows(isa)   NULL
#define PACK_f32_packed(isa)  NULL
#define PACK_bf16_packed(isa) NULL
weft__pack_fn weft__linear_pack_avx512vnni;

// What lays weights out in 12 bits for a row of the table.
#define CODES_f32(isa)         NULL
#define CODES_f32_panel(isa)   NULL
#define CODES_q8(isa)          NULL
#define CODES_q8_panel(isa)    NULL
#define CODES_q8_nofetch(isa)  NULL
#define CODES_q8_row1(isa)     NULL
#define CODES_q8_row2(isa)     NULL
#define CODES_q8_masked(isa)   NULL
#define CODES_q8_packed(isa)   NULL
#define CODES_bf16_panel(isa)  NULL
#define CODES_bf16_lines(isa)  NULL
#define CODES_bf16_rows(isa)   NULL
#define CODES_f32_packed(isa)  &weft__linear_codes_packer_avx512vnni
#define CODES_bf16_packed(isa) &weft__linear_codes_packer_avx512vnni
extern const struct weft__codes_packer weft__linear_codes_packer_avx512vnni;

// What makes tiles of rows of X for a row of the table, and from how many on.
#define LAY_f32(isa)         NULL
#define LAY_f32_panel(isa)   NULL
#define LAY_q8(isa)          NULL
#define LAY_q8_panel(isa)    NULL
#define LAY_q8_nofetch(isa)  NULL
#define LAY_q8_row1(isa)     NULL
#define LAY_q8_row2(isa)     NULL
#define LAY_q8_masked(isa)   NULL
#define LAY_bf16_panel(isa)  NULL
#define LAY_bf16_lines(isa)  NULL
#define LAY_bf16_rows(isa)   NULL
#define LAY_f32_packed(isa)  NULL
#define LAY_bf16_packed(isa) NULL
#define LAY_q8_packed(isa)   LAY_##isa
#define LAY_avx512vnni       NULL
#define LAY_amx              &weft__linear_tiler_amx
extern const struct weft__linear_tiler weft__linear_tiler_amx;
#define LAY_BATCH(ID) (WEFT_##ID == WEFT_Q6_K ? 32 : 64)

weft__linear_fn weft__linear_F32_bf16_ref, weft__linear_F16_bf16_ref, weft__linear_BF16_bf16_ref;

// Kernels of the formats that won a measurement.
#define X(weight, acts, isa, ...) weft__linear_fn weft__linear_##weight##_##acts##_##isa;
#define ANY(...)
#include "src/kernels/linear/linear.def"
#undef X
#undef ANY

// Kernels of any format, best first; columns as in linear.def.
#ifdef WEFT__X86
#define ANY_MAP(X, ...)                                                                            \
    X(q8, avx512vnni, 32, 1, 8, __VA_ARGS__)                                                       \
    X(q8_panel, avx512vnni, 32, 9, MANY, __VA_ARGS__)                                              \
    X(f32, avx512, 16, 1, MANY, __VA_ARGS__)                                                       \
    X(q8, avx2, 16, 1, 8, __VA_ARGS__)                                                             \
    X(q8_panel, avx2, 16, 9, MANY, __VA_ARGS__)                                                    \
    X(f32, avx2, 16, 1, MANY, __VA_ARGS__)
#elif defined(WEFT__ARM64)
#define ANY_MAP(X, ...)                                                                            \
    X(q8, neondot, 16, 1, MANY, __VA_ARGS__)                                                       \
    X(q8, neon, 16, 1, MANY, __VA_ARGS__)                                                          \
    X(f32, neon, 16, 1, MANY, __VA_ARGS__)
#else
#define ANY_MAP(X, ...)
#endif

#define DECLARE_ANY(acts, isa, ...) weft__linear_fn weft__linear_any_##acts##_##isa;
ANY_MAP(DECLARE_ANY, )
weft__linear_fn weft__linear_any_q8_panel_amx; // of some formats (linear.def)

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    weft__linear_fn weft__linear_##ID##_f32_ref, weft__linear_##ID##_q8_ref;
#include <weft/formats.def>
#undef WEFT_FORMAT

// Activations are rounded for blocks, not for plain elements. What may lie beside the codes of a format
// is known to the reference, to plain formats of the kernels of any, and to theirs of MLX.
#define IS_MLX(ID) (WEFT_##ID >= WEFT_MLX_Q2_G32 && WEFT_##ID <= WEFT_MLX_Q8_G128)
#define REFERENCE(ID, name, acts_of)                                                               \
    {.base = {"linear", "linear_" name "_" #acts_of "_ref", WEFT__ISA_ref},                        \
     .weight = WEFT_##ID,                                                                          \
     .acts = WEFT__ACTS_##acts_of,                                                                 \
     .row_step = 1,                                                                                \
     .min_batch = 1,                                                                               \
     .max_batch = MANY,                                                                            \
     .planes = true,                                                                               \
     .run = weft__linear_##ID##_##acts_of##_ref,                                                   \
     .narrow = NARROW_##acts_of(ref)},
#define FEW_PLANES_f32         false
#define FEW_PLANES_f32_panel   false
#define FEW_PLANES_q8_panel    false
#define FEW_PLANES_bf16_panel  false
#define FEW_PLANES_bf16_lines  false
#define FEW_PLANES_bf16_rows   false
#define FEW_PLANES_q8          true
#define FEW_PLANES_q8_nofetch  true
#define FEW_PLANES_q8_row1     true
#define FEW_PLANES_q8_row2     true
#define FEW_PLANES_q8_masked   true
#define FEW_PLANES_q8_packed   false
#define FEW_PLANES_f32_packed  false
#define FEW_PLANES_bf16_packed false
#define FEW_PLANES(acts, isa)  (FEW_PLANES_##acts && WEFT__ISA_##isa == WEFT__ISA_avx512vnni)
#define DELIVERS(acts, isa)                                                                        \
    (WEFT__ACTS_##acts == WEFT__ACTS_bf16 && WEFT__ISA_##isa == WEFT__ISA_avx512bf16)
#define ROW(ID, text, acts_of, isa, step, least, most, takes_planes, function)                     \
    {.base = {"linear", "linear_" text "_" #isa, WEFT__ISA_##isa},                                 \
     .weight = WEFT_##ID,                                                                          \
     .acts = WEFT__ACTS_##acts_of,                                                                 \
     .row_step = step,                                                                             \
     .min_batch = least,                                                                           \
     .max_batch = most,                                                                            \
     .delivers = DELIVERS(acts_of, isa),                                                           \
     .few_planes = FEW_PLANES(acts_of, isa),                                                       \
     .planes = takes_planes,                                                                       \
     .run = weft__linear_##function##_##acts_of##_##isa,                                           \
     .narrow = NARROW_##acts_of(isa),                                                              \
     .turned = TURNED_##acts_of(isa),                                                              \
     .pack = PACK_##acts_of(isa),                                                                  \
     .codes = CODES_##acts_of(isa),                                                                \
     .lay = LAY_##acts_of(isa),                                                                    \
     .lay_batch = LAY_BATCH(ID)},
#define ANY_SCALED(ID, name, acts, isa, row_step, min_batch, max_batch, planes)                    \
    ROW(ID, name "_" #acts "_any", acts, isa, row_step, min_batch, max_batch, planes, any)
#define ANY_f32(ID, name, elems, ...)                                                              \
    ANY_SCALED(ID, name, f32, __VA_ARGS__, (elems) == 1 || IS_MLX(ID))
#define ANY_q8(ID, name, elems, ...)                                                               \
    ROUNDED_##elems(ANY_SCALED(ID, name, q8, __VA_ARGS__, IS_MLX(ID)))
#define ANY_q8_panel(ID, name, elems, ...)                                                         \
    ROUNDED_##elems(ANY_SCALED(ID, name, q8_panel, __VA_ARGS__, IS_MLX(ID)))
#define ANY_ROW(acts, isa, row_step, min_batch, max_batch, ID, name, elems)                        \
    ANY_##acts(ID, name, elems, isa, row_step, min_batch, max_batch)
#define ROUNDED_1(...)
#define ROUNDED_32(...)  __VA_ARGS__
#define ROUNDED_64(...)  __VA_ARGS__
#define ROUNDED_128(...) __VA_ARGS__
#define ROUNDED_256(...) __VA_ARGS__

static const struct weft__linear_kernel rows[] = {
#define X(weight, acts, isa, row_step, min_batch, max_batch)                                       \
    ROW(weight, WEFT__NAME_##weight "_" #acts, acts, isa, row_step, min_batch, max_batch, false,   \
        weight)
#define ANY(weight, acts, isa, row_step, min_batch, max_batch)                                     \
    ROW(weight, WEFT__NAME_##weight "_" #acts, acts, isa, row_step, min_batch, max_batch, false,   \
        any)
#include "src/kernels/linear/linear.def"
#undef X
#undef ANY
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    ANY_MAP(ANY_ROW, ID, name, block_elems)
#include <weft/formats.def>
#undef WEFT_FORMAT
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    REFERENCE(ID, name, f32)                                                                       \
    ROUNDED_##block_elems(REFERENCE(ID, name, q8))
#include <weft/formats.def>
#undef WEFT_FORMAT
    REFERENCE(F32, "f32", bf16) REFERENCE(F16, "f16", bf16) REFERENCE(BF16, "bf16", bf16)};

const struct weft__kernel_table weft__linear_table = {"linear", rows, sizeof rows[0],
                                                      sizeof rows / sizeof rows[0]};
