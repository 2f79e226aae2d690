// SPDX-License-Identifier: MIT
#ifndef SERVER_EMBEDDING_H
#define SERVER_EMBEDDING_H

// /v1/embeddings: texts to vectors.

#include "server/api.h"

enum { EMBEDDING_MAX_TEXTS = 2048 };

typedef struct embedding {
    json_t *root;          // the body; strings below are its own
    tokenizer_bytes *text; // [count]; data NULL: the ids are there
    tokenizer_ids *ids;    // [count]
    int32_t count;
    bool base64;        // of floats, little-endian, not a list of numbers
    int32_t dimensions; // asked for; 0: those of the model
    float *vectors;     // [count][dim], when they are there
    int32_t dim;
} embedding;

// Reads a body; release with embedding_free, also after a failure.
bool embedding_read(embedding *e, const char *body, size_t bytes, int32_t vocab, api_error *error);
void embedding_free(embedding *e);

// Cuts texts into tokens; each may have at most `most`.
bool embedding_encode(embedding *e, const tokenizer *t, int32_t most, api_error *error);

// The answer; NULL when memory is short.
json_t *embedding_answer(const embedding *e, const char *model_name);

#endif
