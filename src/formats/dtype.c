// SPDX-License-Identifier: MIT
// What <weft/types.h> says of formats, from the one list.
#include <string.h>

#include <weft/types.h>

#include "src/base/checked.h"

struct dtype_fact {
    weft_dtype dtype;
    const char *name;
    int32_t block_elems, block_bytes;
};

static const struct dtype_fact facts[] = {
#define WEFT_FORMAT(id, value, name, block_elems, block_bytes)                                     \
    {WEFT_##id, name, block_elems, block_bytes},
#include <weft/formats.def>
#undef WEFT_FORMAT
};

enum { FACT_COUNT = sizeof facts / sizeof *facts };

static const struct dtype_fact *find(weft_dtype dtype)
{
    for (int i = 0; i < FACT_COUNT; i++)
        if (facts[i].dtype == dtype)
            return &facts[i];
    return NULL;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    const struct dtype_fact *fact = find(dtype);
    return fact ? fact->name : NULL;
}

weft_dtype weft_dtype_parse(const char *name)
{
    for (int i = 0; name && i < FACT_COUNT; i++)
        if (strcmp(facts[i].name, name) == 0)
            return facts[i].dtype;
    return WEFT_DTYPE_NONE;
}

weft_dtype weft_dtype_at(int32_t n)
{
    return n >= 0 && n < FACT_COUNT ? facts[n].dtype : WEFT_DTYPE_NONE;
}

int32_t weft_dtype_block_elems(weft_dtype dtype)
{
    const struct dtype_fact *fact = find(dtype);
    return fact ? fact->block_elems : 0;
}

int32_t weft_dtype_block_bytes(weft_dtype dtype)
{
    const struct dtype_fact *fact = find(dtype);
    return fact ? fact->block_bytes : 0;
}

int64_t weft_dtype_row_bytes(weft_dtype dtype, int64_t cols)
{
    const struct dtype_fact *fact = find(dtype);
    int64_t bytes;
    if (!fact || cols < 0 || cols % fact->block_elems != 0 ||
        !weft__mul_i64(cols / fact->block_elems, fact->block_bytes, &bytes))
        return -1;
    return bytes;
}
