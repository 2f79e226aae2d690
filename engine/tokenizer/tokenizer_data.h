// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_TOKENIZER_DATA_H
#define ENGINE_TOKENIZER_TOKENIZER_DATA_H

// What lies behind a tokenizer; for the files of this room only.

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/merges.h"
#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/special.h"
#include "engine/tokenizer/vocab.h"

struct tokenizer {
    tokenizer_kind kind;
    vocab vocab;
    merge_table merges;
    special_trie specials;
    pretokenizer pre; // byte-level
    bool *ends;       // [vocab.count] of tokenizer_is_end
    int32_t bos, eos, eot, unknown, padding;
    bool add_bos, add_eos;
    bool add_space_prefix;         // SentencePiece
    bool remove_extra_whitespaces; // SentencePiece
    bool words_begin_with_space; // SentencePiece: in no piece does a space follow another character
};

// Memory of one call of tokenizer_encode.
typedef struct encode_work {
    const tokenizer *t;
    unsigned flags;
    tokenizer_ids *list;
    engine_error *err;
    bpe_work bpe;
    pretokenizer_walk walk; // byte-level
    tokenizer_text text;    // normalised
} encode_work;

// Append the ids of a text that holds no special pieces.
bool sentencepiece_encode(encode_work *work, const char *text, size_t text_bytes);
bool byte_level_encode(encode_work *work, const char *text, size_t text_bytes);

// Appends the ids of the joined symbols of a word. Bytes of a symbol without a piece become their byte
// pieces, else the unknown piece.
bool encode_symbols(encode_work *work, const char *word, size_t fragment_start);

bool encode_no_memory(encode_work *work); // reports and returns false

#endif
