// SPDX-License-Identifier: MIT
#include "src/base/memory.h"

#include <stdint.h>
#include <stdlib.h>

void *weft__base_allocate(void *user, size_t bytes)
{
    (void)user;
    if (bytes > SIZE_MAX - WEFT__ALIGN)
        return NULL;
    size_t rounded = (bytes + WEFT__ALIGN - 1) / WEFT__ALIGN * WEFT__ALIGN;
    return aligned_alloc(WEFT__ALIGN, rounded ? rounded : WEFT__ALIGN);
}

void weft__base_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}
