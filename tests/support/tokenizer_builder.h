// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_TOKENIZER_BUILDER_H
#define TESTS_SUPPORT_TOKENIZER_BUILDER_H

// Collects a vocabulary piece by piece for tests; nothing is checked. Running out of memory ends the test
// program.

#include "engine/tokenizer/tokenizer.h"

typedef struct tokenizer_builder {
    tokenizer_spec spec; // everything but the arrays may be set directly
    tokenizer_bytes *pieces;
    float *scores;
    int32_t *types;
    tokenizer_bytes *merges;
} tokenizer_builder;

tokenizer_builder builder_new(tokenizer_kind kind);

// Returns the id.
int32_t builder_piece(tokenizer_builder *b, const char *text, int32_t type, float score);
int32_t builder_piece_bytes(tokenizer_builder *b, const void *data, size_t size_bytes, int32_t type,
                            float score);

// All 256 bytes, as ids in ascending order: "<0x00>" ... or the byte-level alphabet.
void builder_bytes(tokenizer_builder *b);

void builder_merge(tokenizer_builder *b, const char *merge);
void builder_merge_bytes(tokenizer_builder *b, const void *data, size_t size_bytes);

// A merge and its joint piece, for texts of the byte-level alphabet.
void builder_join(tokenizer_builder *b, const char *left, const char *right);

// Makes the tokenizer and empties the builder.
tokenizer *builder_finish(tokenizer_builder *b, engine_error *err);

#endif
