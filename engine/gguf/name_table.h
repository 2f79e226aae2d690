// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_NAME_TABLE_H
#define ENGINE_GGUF_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct name_slot {
    const char *name; // NULL marks a free slot
    uint32_t name_bytes;
    uint32_t index;
} name_slot;

// Finds the index of a name. Open addressing at most half full; the names stay the caller's.
typedef struct name_table {
    name_slot *slots;
    size_t mask;
} name_table;

// Room for capacity names; false when memory is short.
bool name_table_init(name_table *table, size_t capacity);

void name_table_free(name_table *table);

// False if the name is there already.
bool name_table_insert(name_table *table, const char *name, size_t name_bytes, size_t index);

// Writes the index of the name; false if it is not there.
bool name_table_find(const name_table *table, const char *name, size_t name_bytes, size_t *index);

#endif
