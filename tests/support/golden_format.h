// SPDX-License-Identifier: MIT
// Golden blocks of the weight formats.
#ifndef WEFT_TESTS_SUPPORT_GOLDEN_FORMAT_H
#define WEFT_TESTS_SUPPORT_GOLDEN_FORMAT_H

#include <stdbool.h>

#include <weft/types.h>

#include "tests/support/golden.h"

typedef struct golden_format {
    golden *file;
    const char *name;
    weft_dtype dtype;
    int64_t num_blocks, block_elems, block_bytes;
    const void *blocks;  // [num_blocks][block_bytes]
    const float *values; // [num_blocks][block_elems]: what the blocks decode to
} golden_format;

// Opens the n-th of the library's formats that has something to decode, n = 0, 1, ...; false past the
// last. Every such format has a golden file.
bool golden_format_open(int32_t n, golden_format *out);
void golden_format_close(golden_format *format);

#endif
