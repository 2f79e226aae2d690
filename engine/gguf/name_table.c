// SPDX-License-Identifier: MIT
#include "engine/gguf/name_table.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "engine/base/alloc.h"

bool name_table_init(name_table *table, size_t capacity)
{
    size_t slot_count = 16;
    while (slot_count < capacity * 2)
        slot_count *= 2;
    table->slots = engine_alloc(slot_count, sizeof(name_slot));
    table->mask = slot_count - 1;
    return table->slots != NULL;
}

void name_table_free(name_table *table)
{
    free(table->slots);
    *table = (name_table){0};
}

// The slot that holds the name, or the free one where it belongs. The seed, an address, is different in
// every run: nobody can make a file whose names all want the same slot.
static name_slot *slot_of(const name_table *table, const char *name, size_t name_bytes)
{
    uint64_t seed = (uintptr_t)table->slots;
    size_t position = (size_t)XXH3_64bits_withSeed(name, name_bytes, seed) & table->mask;
    for (;; position = (position + 1) & table->mask) {
        name_slot *slot = &table->slots[position];
        if (slot->name == NULL)
            return slot;
        if (slot->name_bytes == name_bytes && memcmp(slot->name, name, name_bytes) == 0)
            return slot;
    }
}

bool name_table_insert(name_table *table, const char *name, size_t name_bytes, size_t index)
{
    name_slot *slot = slot_of(table, name, name_bytes);
    if (slot->name != NULL)
        return false;
    *slot = (name_slot){name, (uint32_t)name_bytes, (uint32_t)index};
    return true;
}

bool name_table_find(const name_table *table, const char *name, size_t name_bytes, size_t *index)
{
    const name_slot *slot = slot_of(table, name, name_bytes);
    if (slot->name == NULL)
        return false;
    *index = slot->index;
    return true;
}
