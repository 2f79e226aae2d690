// SPDX-License-Identifier: MIT
#include "engine/tokenizer/special.h"

#include <stdlib.h>

#include "engine/base/alloc.h"

static uint32_t find_sibling(const special_trie *trie, uint32_t node, uint8_t byte)
{
    while (node != 0 && trie->nodes[node].byte != byte)
        node = trie->nodes[node].sibling;
    return node;
}

uint32_t special_step(const special_trie *trie, uint32_t node, uint8_t byte)
{
    return node == 0 ? trie->roots[byte] : find_sibling(trie, trie->nodes[node].child, byte);
}

// 0 when memory is short.
static uint32_t new_node(special_trie *trie, uint8_t byte, uint32_t sibling)
{
    if (trie->count == trie->capacity) {
        size_t capacity = trie->capacity ? trie->capacity * 2 : 256;
        special_node *nodes = engine_realloc(trie->nodes, capacity, sizeof *nodes);
        if (!nodes || capacity > UINT32_MAX)
            return 0;
        trie->nodes = nodes;
        trie->capacity = capacity;
        trie->count = trie->count ? trie->count : 1;
    }
    trie->nodes[trie->count] = (special_node){0, sibling, TOKENIZER_NONE, byte, false};
    return (uint32_t)trie->count++;
}

bool special_insert(special_trie *trie, const vocab *v, int32_t id, engine_error *err)
{
    tokenizer_bytes piece = vocab_piece(v, id);
    if (piece.size_bytes > TOKENIZER_MAX_SPECIAL_BYTES)
        return engine_fail(err,
                           "tokenizer: special piece %d has %zu bytes, more than %d; the file is "
                           "damaged",
                           (int)id, piece.size_bytes, TOKENIZER_MAX_SPECIAL_BYTES);
    uint32_t parent = 0;
    for (size_t i = 0; i < piece.size_bytes; i++) {
        uint8_t byte = (uint8_t)piece.data[i];
        uint32_t first = i == 0 ? trie->roots[byte] : trie->nodes[parent].child;
        uint32_t node = find_sibling(trie, first, byte);
        if (node == 0) {
            node = new_node(trie, byte, first);
            if (node == 0)
                return engine_fail(err, "tokenizer: not enough memory for the special pieces");
            if (i == 0)
                trie->roots[byte] = node;
            else
                trie->nodes[parent].child = node;
        }
        parent = node;
    }
    special_node *last = &trie->nodes[parent];
    if (last->id != TOKENIZER_NONE)
        return engine_fail(err,
                           "tokenizer: special pieces %d and %d are the same text; the file is "
                           "damaged",
                           (int)last->id, (int)id);
    last->id = id;
    last->is_control = v->types[id] != TOKENIZER_USER_DEFINED;
    return true;
}

bool special_build(special_trie *trie, const vocab *v, engine_error *err)
{
    for (size_t id = 0; id < v->count; id++) {
        int type = v->types[id];
        bool special = type == TOKENIZER_CONTROL || type == TOKENIZER_USER_DEFINED ||
                       type == TOKENIZER_UNKNOWN;
        if (special && !special_insert(trie, v, (int32_t)id, err))
            return false;
    }
    return true;
}

void special_free(special_trie *trie)
{
    free(trie->nodes);
    *trie = (special_trie){0};
}

static int32_t longest_at(const special_trie *trie, const char *text, size_t text_bytes,
                          bool with_control, size_t *match_bytes)
{
    int32_t id = TOKENIZER_NONE;
    uint32_t node = text_bytes > 0 ? trie->roots[(uint8_t)text[0]] : 0;
    for (size_t i = 1; node != 0; i++) {
        const special_node *here = &trie->nodes[node];
        if (here->id != TOKENIZER_NONE && (with_control || !here->is_control)) {
            id = here->id;
            *match_bytes = i;
        }
        node = i < text_bytes ? find_sibling(trie, here->child, (uint8_t)text[i]) : 0;
    }
    return id;
}

int32_t special_search(const special_trie *trie, const char *text, size_t text_bytes,
                       size_t position, bool with_control, size_t *start, size_t *match_bytes)
{
    for (size_t i = position; i < text_bytes; i++) {
        if (trie->roots[(uint8_t)text[i]] == 0)
            continue;
        int32_t id = longest_at(trie, text + i, text_bytes - i, with_control, match_bytes);
        if (id != TOKENIZER_NONE) {
            *start = i;
            return id;
        }
    }
    *start = text_bytes;
    return TOKENIZER_NONE;
}

int32_t special_find(const special_trie *trie, const char *text, size_t text_bytes)
{
    uint32_t node = text_bytes > 0 ? trie->roots[(uint8_t)text[0]] : 0;
    for (size_t i = 1; i < text_bytes && node != 0; i++)
        node = find_sibling(trie, trie->nodes[node].child, (uint8_t)text[i]);
    return node != 0 ? trie->nodes[node].id : TOKENIZER_NONE;
}
