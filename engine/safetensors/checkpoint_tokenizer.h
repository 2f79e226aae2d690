// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAFETENSORS_CHECKPOINT_TOKENIZER_H
#define ENGINE_SAFETENSORS_CHECKPOINT_TOKENIZER_H

// A tokenizer.json on its way to GGUF's keys; for the files that read it.

#include "engine/safetensors/checkpoint_parts.h"

typedef enum tokenizer_json_kind {
    TOKENIZER_JSON_BYTE_LEVEL,
    TOKENIZER_JSON_SENTENCEPIECE, // BPE with byte pieces
    TOKENIZER_JSON_WORDPIECE,
    TOKENIZER_JSON_UNIGRAM,
} tokenizer_json_kind;

typedef struct tokenizer_json_piece {
    const char *text; // NULL: no piece has this id
    int32_t type;
    float score; // of Unigram
} tokenizer_json_piece;

typedef struct tokenizer_json {
    const checkpoint *c;
    const json_t *root, *model;
    tokenizer_json_piece *pieces;
    size_t count;
    tokenizer_json_kind kind;
    gguf_output *output;
    engine_error *err;
} tokenizer_json;

// The node itself, if it is of the type, else the member of its list that is; NULL if there is none.
const json_t *tokenizer_json_member(const json_t *node, const char *list, const char *type);

// How text is cut into words for byte-level pieces; false, with a text, if it is in a way that cannot be said.
bool tokenizer_json_put_words(const tokenizer_json *r);

// A WordPiece piece as GGUF has it: U+2581 in front of what begins a word, nothing in front of what goes on.
void tokenizer_json_put_wordpiece(const tokenizer_json *r, const char *text);

// How text is cleaned and normalised; false, with a text, if it is in a way that weft does not know.
bool tokenizer_json_put_bert_normalizer(const tokenizer_json *r);
bool tokenizer_json_put_unigram_normalizer(const tokenizer_json *r);

#endif
