// SPDX-License-Identifier: MIT
#include "src/kernels/attention/attention_kernel.h"

enum { WEFT_ANY = WEFT_DTYPE_NONE }; // of rows that read every format

#define X(format, isa, rows_of_tile)                                                               \
    weft__attention_fn weft__attention_##format##_##isa;                                           \
    weft__attention_scratch_fn weft__attention_scratch_##isa;
#include "src/kernels/attention/attention.def"
#undef X

// Kernels of pairs multiply what is bf16, or integers of 16 bits.
#define PAIRS(isa)                                                                                 \
    (WEFT__ISA_##isa == WEFT__ISA_avx512vnni || WEFT__ISA_##isa == WEFT__ISA_avx512bf16 ||         \
     WEFT__ISA_##isa == WEFT__ISA_amx)

#define IS_F16(format) ((weft_dtype)WEFT_##format == WEFT_F16)

static const struct weft__attention_kernel rows[] = {
#define X(format, isa, rows_of_tile)                                                               \
    {.base = {"attention", "attention_" WEFT__NAME_##format "_" #isa, WEFT__ISA_##isa},            \
     .kv = (weft_dtype)WEFT_##format,                                                              \
     .q = !PAIRS(isa)      ? WEFT_DTYPE_NONE                                                       \
          : IS_F16(format) ? WEFT_F16                                                              \
                           : WEFT_BF16,                                                            \
     .tile_rows = rows_of_tile,                                                                    \
     .every_mask = PAIRS(isa) && !IS_F16(format),                                                  \
     .late_masks = true,                                                                           \
     .narrow_weights = PAIRS(isa),                                                                 \
     .integers = PAIRS(isa) && (weft_dtype)WEFT_##format == WEFT_INT8,                             \
     .few_apart = !PAIRS(isa),                                                                     \
     .run = weft__attention_##format##_##isa,                                                      \
     .scratch_bytes = weft__attention_scratch_##isa},
#include "src/kernels/attention/attention.def"
#undef X
};

const struct weft__kernel_table weft__attention_table = {"attention", rows, sizeof rows[0],
                                                         sizeof rows / sizeof rows[0]};
