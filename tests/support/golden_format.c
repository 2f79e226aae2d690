// SPDX-License-Identifier: MIT
#include "tests/support/golden_format.h"

#include <stdio.h>

bool golden_format_open(int32_t n, golden_format *out)
{
    weft_dtype dtype = weft_dtype_at(0);
    for (int32_t i = 0, seen = 0; dtype != WEFT_DTYPE_NONE; dtype = weft_dtype_at(++i)) {
        if (dtype != WEFT_F32 && seen++ == n) {
            break;
        }
    }
    if (dtype == WEFT_DTYPE_NONE) {
        return false;
    }
    char path[64];
    const char *name = weft_dtype_name(dtype);
    snprintf(path, sizeof path, "dequant/%s.safetensors", name);
    golden *file = golden_open(path);
    const void *blocks = golden_data(file, name, "blocks", GOLDEN_U8);
    const float *values = golden_data(file, name, "values", GOLDEN_F32);
    const int64_t *shape = golden_find(file, name, "blocks")->shape;
    *out = (golden_format){.file = file,
                           .name = name,
                           .dtype = dtype,
                           .num_blocks = shape[0],
                           .block_elems = golden_find(file, name, "values")->shape[1],
                           .block_bytes = shape[1],
                           .blocks = blocks,
                           .values = values};
    return true;
}

void golden_format_close(golden_format *format)
{
    golden_close(format->file);
    format->file = NULL;
}
