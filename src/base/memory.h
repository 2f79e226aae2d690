// SPDX-License-Identifier: MIT
// The only place of the library that asks the C library for memory.
#ifndef WEFT_BASE_MEMORY_H
#define WEFT_BASE_MEMORY_H

#include <stddef.h>

#define WEFT__ALIGN 64

// Aligned to WEFT__ALIGN, or NULL.
void *weft__base_allocate(void *user, size_t bytes);
void weft__base_release(void *user, void *memory);

#endif
