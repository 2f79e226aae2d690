// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_SPECIAL_H
#define ENGINE_TOKENIZER_SPECIAL_H

// A trie over the bytes of pieces: finds control and user-defined ones in text, and the pieces of a Unigram
// vocabulary that begin at a place.

#include "engine/tokenizer/vocab.h"

typedef struct special_node {
    uint32_t child;   // first of the next byte's nodes, 0 if none
    uint32_t sibling; // next node for another value of the same byte, 0 if none
    int32_t id;       // of the piece that ends here, or TOKENIZER_NONE
    uint8_t byte;
    bool is_control; // that piece is matched on request only
} special_node;

typedef struct special_trie {
    special_node *nodes; // [0] is not used
    size_t count;
    size_t capacity;
    uint32_t roots[256]; // node of the first byte, 0 if none
} special_trie;

// Adds a piece to a trie that begins as zeros. Refuses a text that is there already.
bool special_insert(special_trie *trie, const vocab *v, int32_t id, engine_error *err);

// The node behind `node` (0: the root) for the next byte; 0 if there is none.
uint32_t special_step(const special_trie *trie, uint32_t node, uint8_t byte);

// Into a zeroed trie, which must be freed on failure too.
bool special_build(special_trie *trie, const vocab *v, engine_error *err);

void special_free(special_trie *trie);

// Finds the first place in text[position ..] where a piece matches, and the longest piece there. Returns
// its id and the place, or TOKENIZER_NONE and text_bytes.
int32_t special_search(const special_trie *trie, const char *text, size_t text_bytes,
                       size_t position, bool with_control, size_t *start, size_t *match_bytes);

// The piece that is exactly this text, or TOKENIZER_NONE.
int32_t special_find(const special_trie *trie, const char *text, size_t text_bytes);

#endif
