// SPDX-License-Identifier: MIT
#include "engine/tokenizer/charsmap.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

// Every place in the texts has an end that is near.
static bool texts_end(const char *texts, size_t text_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < text_bytes; i++) {
        length = texts[i] == '\0' ? 0 : length + 1;
        if (length > CHARSMAP_MAX_TEXT_BYTES)
            return false;
    }
    return length == 0;
}

bool charsmap_build(charsmap *map, const unsigned char *data, size_t size_bytes, engine_error *err)
{
    size_t trie_bytes = size_bytes < 4 ? 0 : read_u32(data);
    if (size_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > size_bytes - 4)
        return engine_fail(err,
                           "tokenizer: a precompiled_charsmap of %zu bytes does not hold its trie; "
                           "the file is damaged",
                           size_bytes);
    map->unit_count = trie_bytes / 4;
    map->text_bytes = size_bytes - 4 - trie_bytes;
    map->units = engine_alloc(map->unit_count, sizeof *map->units);
    map->texts = engine_alloc(map->text_bytes + 1, 1);
    if (!map->units || !map->texts)
        return engine_fail(err, "tokenizer: not enough memory for the precompiled_charsmap");
    for (size_t i = 0; i < map->unit_count; i++)
        map->units[i] = read_u32(data + 4 + 4 * i);
    memcpy(map->texts, data + 4 + trie_bytes, map->text_bytes);
    return texts_end(map->texts, map->text_bytes) ||
           engine_fail(err,
                       "tokenizer: a text of the precompiled_charsmap has more than %d bytes "
                       "or no end; the file is damaged",
                       CHARSMAP_MAX_TEXT_BYTES);
}

void charsmap_free(charsmap *map)
{
    free(map->units);
    free(map->texts);
    *map = (charsmap){0};
}

// A unit of the double array: whether a value hangs below it (bit 8), the byte that leads to it (bits 0
// to 7; bit 31 marks a value, which no byte leads to), and what its children's places are xor-ed with.
static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

size_t charsmap_find(const charsmap *map, const char *text, size_t text_bytes,
                     tokenizer_bytes *replacement)
{
    size_t found = 0, most = CHARSMAP_MAX_KEY_BYTES, node = 0;
    if (map->unit_count == 0)
        return 0;
    node = offset_of(map->units[0]);
    for (size_t i = 0; i < text_bytes && i < most; i++) {
        unsigned char byte = (unsigned char)text[i];
        node ^= byte;
        if (node >= map->unit_count || (map->units[node] & (1u << 31 | 0xff)) != byte)
            break;
        uint32_t unit = map->units[node];
        node ^= offset_of(unit);
        if (!(unit >> 8 & 1) || node >= map->unit_count)
            continue;
        size_t at = map->units[node] & ~(1u << 31);
        if (at >= map->text_bytes)
            continue;
        found = i + 1;
        *replacement = (tokenizer_bytes){map->texts + at, strlen(map->texts + at)};
    }
    return found;
}
