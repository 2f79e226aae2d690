// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_ALLOC_H
#define ENGINE_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

// Zeroed memory for count items of size bytes, aligned for any scalar type; never NULL for zero items.
// NULL when the product overflows or memory is short. Release with free().
void *engine_alloc(size_t count, size_t size);

// Grows or shrinks an array made by engine_alloc; new bytes are not initialised. On NULL the old array
// is still there.
void *engine_realloc(void *memory, size_t count, size_t size);

// Room for at least `wanted` items of size bytes in an array that has *room of them (none: NULL), doubled as it
// grows; `array` points to the pointer. False when memory is short: then nothing has changed.
bool engine_grow(void *array, size_t *room, size_t wanted, size_t size);

// A NUL-terminated copy of length bytes; NULL when memory is short.
char *engine_copy_text(const char *text, size_t length);

#endif
