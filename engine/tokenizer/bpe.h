// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_BPE_H
#define ENGINE_TOKENIZER_BPE_H

// Byte-pair encoding of one word: joins neighbours by the table's rules until none is left.

#include "engine/tokenizer/merges.h"

typedef struct bpe_symbol {
    int32_t id;      // TOKENIZER_NONE: no piece, joins with nothing
    uint32_t offset; // of its first byte in the word; it ends where the next one begins
    int32_t previous;
    int32_t next;
} bpe_symbol;

// Two neighbours that could join, as they were when this was noted.
typedef struct bpe_candidate {
    uint64_t order; // rank, then place: the smallest is next
    uint32_t end;   // of the right symbol's bytes
    int32_t id;     // of the joint piece
} bpe_candidate;

// Memory of one encoding, reused from word to word. Start from zeros.
typedef struct bpe_work {
    bpe_symbol *symbols; // the word: the caller fills id and offset of [0, count)
    size_t count;
    size_t capacity;
    uint32_t size_bytes; // of the word
    bpe_candidate *heap;
    size_t heap_count;
    size_t heap_capacity;
} bpe_work;

// Room for count symbols; false when memory is short.
bool bpe_reserve(bpe_work *work, size_t count);

// Leaves the joined symbols in [0, work->count), in order. False when memory is short.
bool bpe_merge(const merge_table *table, bpe_work *work);

void bpe_free(bpe_work *work);

#endif
