// SPDX-License-Identifier: MIT
#include "src/kernels/attention/attention_kernel.h"

enum { KV_ANY = 0, KV_F32 = WEFT_F32, KV_F16 = WEFT_F16, KV_BF16 = WEFT_BF16 };
#define WEFT__NAME_ANY "any"

#define X(kv, isa, tile_rows)                                                                      \
    weft__attention_fn weft__attention_##kv##_##isa;                                               \
    weft__attention_scratch_fn weft__attention_scratch_##isa;
#include "src/kernels/attention/attention.def"
#undef X

static const struct weft__attention_kernel rows[] = {
#define X(kv, isa, tile_rows)                                                                      \
    {{"attention", "attention_" WEFT__NAME_##kv "_" #isa, WEFT__ISA_##isa},                        \
     (weft_dtype)KV_##kv,                                                                          \
     tile_rows,                                                                                    \
     weft__attention_##kv##_##isa,                                                                 \
     weft__attention_scratch_##isa},
#include "src/kernels/attention/attention.def"
#undef X
};

const struct weft__kernel_table weft__attention_table = {"attention", rows, sizeof rows[0],
                                                         sizeof rows / sizeof rows[0]};
