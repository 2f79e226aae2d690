// SPDX-License-Identifier: MIT
#include "engine/constrain/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/constrain/grammar.h"

enum { MAX_BRANCH = TOKENIZER_MAX_PIECE_BYTES + 4 };

typedef struct piece {
    tokenizer_bytes text;
    int32_t id;
    bool special;
} piece;

bool token_trie_bytes(const token_trie *trie, int32_t id, tokenizer_bytes *text, bool *special)
{
    const tokenizer *t = trie->tokenizer;
    if (tokenizer_is_end(t, id) || !tokenizer_piece(t, id, text) || text->size_bytes == 0)
        return false;
    *special = tokenizer_is_special(t, id);
    if (*special)
        return tokenizer_find_special(t, text->data, text->size_bytes) == id;
    return !memchr(text->data, GRAMMAR_SPECIAL, text->size_bytes) &&
           !memchr(text->data, GRAMMAR_SPECIAL_END, text->size_bytes);
}

static size_t size_of(const piece *p)
{
    return p->text.size_bytes + 2u * p->special;
}

static uint8_t byte_of(const piece *p, size_t i)
{
    if (!p->special)
        return (uint8_t)p->text.data[i];
    if (i == 0)
        return GRAMMAR_SPECIAL;
    return i <= p->text.size_bytes ? (uint8_t)p->text.data[i - 1] : GRAMMAR_SPECIAL_END;
}

static int by_bytes(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->special != y->special)
        return x->special ? 1 : -1;
    size_t n = x->text.size_bytes < y->text.size_bytes ? x->text.size_bytes : y->text.size_bytes;
    int order = memcmp(x->text.data, y->text.data, n);
    if (order == 0 && x->text.size_bytes != y->text.size_bytes)
        order = x->text.size_bytes < y->text.size_bytes ? -1 : 1;
    return order ? order : x->id < y->id ? -1 : x->id > y->id;
}

// How many bytes two pieces begin with alike.
static size_t shared(const piece *x, const piece *y)
{
    size_t n = 0, most = size_of(x) < size_of(y) ? size_of(x) : size_of(y);
    while (n < most && byte_of(x, n) == byte_of(y, n))
        n++;
    return n;
}

static piece *collect(token_trie *trie, size_t *bytes)
{
    piece *pieces = engine_alloc((size_t)trie->vocab, sizeof *pieces);
    *bytes = 0;
    for (int32_t id = 0; pieces && id < trie->vocab; id++) {
        piece *p = &pieces[trie->id_count];
        p->id = id;
        if (tokenizer_is_end(trie->tokenizer, id))
            trie->ends[trie->end_count++] = id;
        if (!token_trie_bytes(trie, id, &p->text, &p->special))
            continue;
        *bytes += size_of(p);
        trie->id_count++;
    }
    return pieces;
}

// Of one piece after another, byte by byte.
typedef struct branch {
    uint32_t path[MAX_BRANCH]; // [d]: the node of d bytes that is open
    uint8_t bytes[MAX_BRANCH];
    char_run runs[MAX_BRANCH];
} branch;

// The nodes of a piece's bytes are told what it is made of from each on.
static void tell_runs(token_trie *trie, const piece *p, branch *b)
{
    size_t size = size_of(p);
    for (size_t i = 0; i < size; i++)
        b->bytes[i] = byte_of(p, i);
    char_runs(b->bytes, size, b->runs);
    for (size_t i = 0; i < size; i++) {
        token_node *node = &trie->nodes[b->path[i + 1]];
        node->run = char_run_join(node->run, b->runs[i]);
    }
    trie->runs[p->id] = b->runs[0];
}

static void plant(token_trie *trie, const piece *pieces, branch *b)
{
    uint32_t nodes = 1;
    size_t open = 0; // bytes of the path
    for (uint32_t i = 0; i < trie->id_count; i++) {
        size_t same = i > 0 ? shared(&pieces[i - 1], &pieces[i]) : 0, size = size_of(&pieces[i]);
        for (; open > same; open--)
            trie->nodes[b->path[open]].end = nodes;
        for (; open < size; open++) {
            uint8_t byte = byte_of(&pieces[i], open);
            trie->nodes[nodes] = (token_node){.token = i,
                                              .depth = (uint32_t)(open + 1) & 0x7FFFF,
                                              .kind = char_kind_of(byte) & 31,
                                              .byte = byte};
            b->path[open + 1] = nodes++;
        }
        trie->deepest = size > trie->deepest ? (uint32_t)size : trie->deepest;
        trie->ids[i] = pieces[i].id;
        tell_runs(trie, &pieces[i], b);
    }
    for (; open > 0; open--)
        trie->nodes[b->path[open]].end = nodes;
    trie->nodes[0].end = trie->node_count = nodes;
    trie->nodes[nodes] = (token_node){.end = nodes, .token = trie->id_count};
}

static bool fill(token_trie *trie)
{
    size_t bytes;
    trie->ends = engine_alloc((size_t)trie->vocab, sizeof *trie->ends);
    trie->ids = engine_alloc((size_t)trie->vocab, sizeof *trie->ids);
    size_t runs = ((size_t)trie->vocab + 63) / 64 * 64;
    trie->runs = engine_alloc(runs, sizeof *trie->runs);
    for (size_t id = 0; trie->runs && id < runs; id++)
        trie->runs[id] = char_run_make(1u << CHAR_KIND_OTHER, 1);
    piece *pieces = trie->ends && trie->ids && trie->runs ? collect(trie, &bytes) : NULL;
    branch *b = engine_alloc(1, sizeof *b);
    if (pieces && bytes < UINT32_MAX - 2)
        trie->nodes = engine_alloc(bytes + 2, sizeof *trie->nodes);
    bool fine = trie->nodes && b;
    if (fine) {
        qsort(pieces, trie->id_count, sizeof *pieces, by_bytes);
        plant(trie, pieces, b);
        token_node *fitting =
            engine_realloc(trie->nodes, (size_t)trie->node_count + 1, sizeof *fitting);
        trie->nodes = fitting ? fitting : trie->nodes;
    }
    free(pieces);
    free(b);
    return fine;
}

token_trie *token_trie_make(const tokenizer *t, engine_error *err)
{
    token_trie *trie = t ? engine_alloc(1, sizeof *trie) : NULL;
    if (!t) {
        engine_fail(err, "the model has no tokenizer: its text cannot be constrained");
        return NULL;
    }
    if (trie) {
        trie->tokenizer = t;
        trie->vocab = (int32_t)tokenizer_size(t);
        if (fill(trie))
            return trie;
    }
    token_trie_free(trie);
    engine_fail(err, "not enough memory for the tree of the vocabulary");
    return NULL;
}

void token_trie_free(token_trie *trie)
{
    if (!trie)
        return;
    free(trie->nodes);
    free(trie->ids);
    free(trie->runs);
    free(trie->ends);
    free(trie);
}
