// SPDX-License-Identifier: MIT
#include "src/kernels/embedding/embedding_kernel.h"

#define X(format, isa) weft__embedding_fn weft__embedding_##format##_##isa;
#include "src/kernels/embedding/embedding.def"
#undef X

static const struct weft__embedding_kernel rows[] = {
#define X(format, isa)                                                                             \
    {{"embedding", "embedding_" WEFT__NAME_##format "_" #isa, WEFT__ISA_##isa},                    \
     WEFT_##format,                                                                                \
     weft__embedding_##format##_##isa},
#include "src/kernels/embedding/embedding.def"
#undef X
};

const struct weft__kernel_table weft__embedding_table = {"embedding", rows, sizeof rows[0],
                                                         sizeof rows / sizeof rows[0]};
