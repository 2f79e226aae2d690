// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_VOCAB_H
#define ENGINE_TOKENIZER_VOCAB_H

// The pieces of a vocabulary, by id and by text. Pieces are kept as the bytes that they stand for:
// byte-level pieces are decoded, U+2581 of SentencePiece pieces is a space, "<0x41>" is one byte.

#include "engine/tokenizer/tokenizer.h"

typedef struct vocab {
    size_t count;
    char *bytes;      // all pieces, one after the other
    uint32_t *starts; // [count + 1] into bytes
    uint8_t *types;   // [count] of tokenizer_piece_type
    uint32_t *slots;  // open addressing: id + 1 of normal and user-defined pieces, 0 is free
    size_t mask;
    int32_t byte_ids[256]; // the piece of a single byte, or TOKENIZER_NONE
} vocab;

// Into a zeroed vocab, which must be freed on failure too.
bool vocab_build(vocab *v, const tokenizer_spec *spec, engine_error *err);

void vocab_free(vocab *v);

static inline tokenizer_bytes vocab_piece(const vocab *v, int32_t id)
{
    uint32_t start = v->starts[id];
    return (tokenizer_bytes){v->bytes + start, v->starts[id + 1] - start};
}

// The normal piece with these bytes, else the user-defined one, or TOKENIZER_NONE.
int32_t vocab_find(const vocab *v, const char *text, size_t text_bytes);

// The bytes that a byte-level piece is written for, at most text_bytes of them; false if a character of
// the text stands for no byte, and then *decoded_bytes is not written.
bool vocab_decode_byte_level(const char *text, size_t text_bytes, char *decoded,
                             size_t *decoded_bytes);

#endif
