// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_TOKEN_TRIE_H
#define ENGINE_CONSTRAIN_TOKEN_TRIE_H

// The pieces of a vocabulary as one tree of bytes, in the order in which a walk meets its nodes: what begins with
// a node's bytes lies behind it up to `end`, so what cannot be is passed over at once. Special tokens are there
// as their names between bytes that no text has (grammar.h); those that end a text are not, nor is what is no
// text or can be none.

#include "engine/constrain/char_kind.h"
#include "engine/tokenizer/tokenizer.h"

typedef struct token_node {
    uint32_t end;   // the first node that does not begin with this one's bytes
    uint32_t token; // ids[token .. of the next node) are pieces of exactly its bytes
    uint32_t depth : 19, kind : 5, byte : 8; // kind: of an ASCII character, else CHAR_KIND_OTHER
    // Joined, of all pieces that begin with its bytes: of what they have from its last byte on.
    char_run run;
} token_node;

typedef struct token_trie {
    const tokenizer *tokenizer;
    token_node *nodes; // [node_count + 1]; 0 is the root
    int32_t *ids;
    // [vocab up to a multiple of 64], of whole pieces; CHAR_KIND_OTHER of what is not in the tree.
    char_run *runs;
    int32_t *ends; // [end_count], tokens that end a text
    uint32_t node_count, id_count, end_count, deepest;
    int32_t vocab;
} token_trie;

// The tokenizer must outlive it. NULL when memory is short.
token_trie *token_trie_make(const tokenizer *t, engine_error *err);
void token_trie_free(token_trie *trie); // may be NULL

// The bytes of a token as the tree has them: *text, between special marks if *special. False: the tree has it not.
bool token_trie_bytes(const token_trie *trie, int32_t id, tokenizer_bytes *text, bool *special);

#endif
