// SPDX-License-Identifier: MIT
// Embedding kernels, best first: those that won a measurement would stand before the reference, which
// every format of the list has.
#include "src/kernels/embedding/embedding_kernel.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    weft__embedding_fn weft__embedding_##ID##_ref;
#include <weft/formats.def>
#undef WEFT_FORMAT

static const struct weft__embedding_kernel rows[] = {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    {{"embedding", "embedding_" name "_ref", WEFT__ISA_ref}, WEFT_##ID, weft__embedding_##ID##_ref},
#include <weft/formats.def>
#undef WEFT_FORMAT
};

const struct weft__kernel_table weft__embedding_table = {"embedding", rows, sizeof rows[0],
                                                         sizeof rows / sizeof rows[0]};
