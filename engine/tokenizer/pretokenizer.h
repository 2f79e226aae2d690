// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_PRETOKENIZER_H
#define ENGINE_TOKENIZER_PRETOKENIZER_H

// How a byte-level vocabulary wants text cut into words before BPE. The patterns are those of the models'
// own tokenizer.json files, for PCRE2.

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct pretokenizer_rules {
    const char *name;    // as in tokenizer.ggml.pre
    const char *pattern; // every character of any text is in some match
    bool whole_pieces;   // a word that is a piece is not split ("ignore_merges")
    bool compose;        // text is brought to NFC first
    bool adds_bos;       // where the file does not say
} pretokenizer_rules;

typedef struct pretokenizer {
    const pretokenizer_rules *rules;
    pcre2_code *code;
    pcre2_match_context *limits;
} pretokenizer;

// Into a zeroed pretokenizer, which must be freed on failure too.
bool pretokenizer_build(pretokenizer *p, const char *name, engine_error *err);

void pretokenizer_free(pretokenizer *p);

// What one thread needs to match; NULL when memory is short.
pcre2_match_data *pretokenizer_start(const pretokenizer *p);

// The end of the word that begins at `position`, which is below text_bytes. The text is valid UTF-8.
size_t pretokenizer_next(const pretokenizer *p, pcre2_match_data *match, const char *text,
                         size_t text_bytes, size_t position);

#endif
