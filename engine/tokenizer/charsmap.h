// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_CHARSMAP_H
#define ENGINE_TOKENIZER_CHARSMAP_H

// What SentencePiece replaces before it cuts: the precompiled_charsmap of a model, read where it lies in a
// copy. A file's trie is never trusted: each step stays inside it, and no text costs more than its length.
//
//      u32 little-endian   bytes of the trie
//      units of the trie   u32 each: a double array (Darts), see charsmap.c
//      texts               NUL-terminated; a key's value is where its text begins

#include "engine/tokenizer/tokenizer.h"

enum {
    CHARSMAP_MAX_KEY_BYTES = 128, // longer ones are not looked for
    CHARSMAP_MAX_TEXT_BYTES = 256,
};

typedef struct charsmap {
    uint32_t *units;
    size_t unit_count; // 0: nothing is replaced
    char *texts;
    size_t text_bytes;
} charsmap;

// Into a zeroed map, which must be freed on failure too. Refuses sizes that do not fit, and texts that do
// not end or are longer than CHARSMAP_MAX_TEXT_BYTES.
bool charsmap_build(charsmap *map, const unsigned char *data, size_t size_bytes, engine_error *err);

void charsmap_free(charsmap *map);

// The bytes of the longest key that text begins with, 0 if none, and what stands in its place.
size_t charsmap_find(const charsmap *map, const char *text, size_t text_bytes,
                     tokenizer_bytes *replacement);

#endif
