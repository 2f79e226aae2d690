// SPDX-License-Identifier: MIT
#include "engine/base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/checked.h"

void *engine_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (!checked_mul(count, size, &bytes))
        return NULL;
    return calloc(1, bytes > 0 ? bytes : 1);
}

void *engine_realloc(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (!checked_mul(count, size, &bytes))
        return NULL;
    return realloc(memory, bytes > 0 ? bytes : 1);
}

bool engine_grow(void *array, size_t *room, size_t wanted, size_t size)
{
    void *memory;
    size_t larger = *room ? *room : 16;
    if (wanted <= *room)
        return true;
    while (larger < wanted)
        if (!checked_mul(larger, 2, &larger))
            return false;
    memcpy(&memory, array, sizeof memory); // whatever it points to
    memory = engine_realloc(memory, larger, size);
    if (!memory)
        return false;
    memcpy(array, &memory, sizeof memory);
    *room = larger;
    return true;
}

char *engine_copy_text(const char *text, size_t length)
{
    size_t bytes;
    if (!checked_add(length, 1, &bytes))
        return NULL;
    char *copy = engine_alloc(bytes, 1);
    if (copy != NULL && length > 0)
        memcpy(copy, text, length);
    return copy;
}
