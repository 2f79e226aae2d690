// SPDX-License-Identifier: MIT
#include "src/kernels/kv/kv_kernel.h"

enum { WEFT_ANY = WEFT_DTYPE_NONE }; // of rows that read every format

#define X(kv, isa) weft__kv_store_fn weft__kv_##kv##_##isa;
#include "src/kernels/kv/kv.def"
#undef X

static const struct weft__kv_kernel rows[] = {
#define X(kv, isa)                                                                                 \
    {{"kv", "kv_" WEFT__NAME_##kv "_" #isa, WEFT__ISA_##isa},                                      \
     (weft_dtype)WEFT_##kv,                                                                        \
     weft__kv_##kv##_##isa},
#include "src/kernels/kv/kv.def"
#undef X
};

const struct weft__kernel_table weft__kv_table = {"kv", rows, sizeof rows[0],
                                                  sizeof rows / sizeof rows[0]};
