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

enum { PRETOKENIZER_STAGES = 6 };

// Text is cut by the first pattern into its matches and what lies between them; each of these pieces by the
// second, as if it were alone; and so on. What comes out of the last are the words.
typedef struct pretokenizer_rules {
    const char *name; // as in tokenizer.ggml.pre
    const char *patterns[PRETOKENIZER_STAGES];
    bool whole_pieces; // a word that is a piece is not split ("ignore_merges")
    bool compose;      // text is brought to NFC first
    bool adds_bos;     // where the file does not say
    bool adds_eos;     // likewise
} pretokenizer_rules;

typedef struct pretokenizer {
    const pretokenizer_rules *rules;
    bool compose;           // the rules', or the name's
    pretokenizer_rules own; // where the file brings them
    char *text;             // of these
    pcre2_code *codes[PRETOKENIZER_STAGES];
    int stages;
    pcre2_match_context *limits;
} pretokenizer;

// Into a zeroed pretokenizer, which must be freed on failure too and stays where it is. The name is one of the
// rules', or "patterns:FLAGS\nPATTERN\n..." with flags w (whole_pieces) and c (compose) and patterns for PCRE2.
bool pretokenizer_build(pretokenizer *p, const char *name, engine_error *err);

void pretokenizer_free(pretokenizer *p);

// The n-th set of rules; NULL past the last. Files know some of them by more names.
const char *pretokenizer_name_at(size_t n);

// One thread's way through texts.
typedef struct pretokenizer_walk {
    const pretokenizer *p;
    pcre2_match_data *match;
    const char *text;
    size_t text_bytes;
    size_t ends[PRETOKENIZER_STAGES]; // of the piece of each stage that was cut last
} pretokenizer_walk;

bool pretokenizer_start(const pretokenizer *p, pretokenizer_walk *walk); // false: memory is short
void pretokenizer_stop(pretokenizer_walk *walk);                         // also a zeroed one

// The text to walk through: valid UTF-8, which stays the caller's.
void pretokenizer_text(pretokenizer_walk *walk, const char *text, size_t text_bytes);

// The end of the word that begins at `position`, which is below text_bytes; positions only grow.
size_t pretokenizer_next(pretokenizer_walk *walk, size_t position);

#endif
