// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_TOKENIZER_DATA_H
#define ENGINE_TOKENIZER_TOKENIZER_DATA_H

// What lies behind a tokenizer; for the files of this room only.

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/charsmap.h"
#include "engine/tokenizer/merges.h"
#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/special.h"
#include "engine/tokenizer/vocab.h"

// What Unigram needs beside the vocabulary.
typedef struct unigram_model {
    special_trie pieces; // the normal ones
    float *scores;       // [vocab.count]
    float unknown_score;
    charsmap charsmap;
} unigram_model;

// The best way to cut a text up to a place.
typedef struct unigram_place {
    float score;
    uint32_t start; // of the last piece; UINT32_MAX: no piece ends here
    int32_t id;     // of it, or TOKENIZER_NONE for a character that is no piece
} unigram_place;

struct tokenizer {
    tokenizer_kind kind;
    vocab vocab;
    merge_table merges;
    special_trie specials;
    pretokenizer pre; // byte-level
    unigram_model unigram;
    bool *ends; // [vocab.count] of tokenizer_is_end
    int32_t bos, eos, unknown;
    bool add_bos, add_eos;
    bool add_space_prefix;         // SentencePiece, Unigram; pieces of WordPiece begin with a space
    bool remove_extra_whitespaces; // SentencePiece, Unigram
    bool words_begin_with_space;   // of both: in no piece does a space follow another character
    bool lower_case, strip_accents; // WordPiece
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
    unigram_place *places;  // Unigram
    size_t place_room;
} encode_work;

// Append the ids of a text that holds no special pieces.
bool sentencepiece_encode(encode_work *work, const char *text, size_t text_bytes);
bool byte_level_encode(encode_work *work, const char *text, size_t text_bytes);
bool wordpiece_encode(encode_work *work, const char *text, size_t text_bytes);
bool unigram_encode(encode_work *work, const char *text, size_t text_bytes);

// Into a zeroed model, which must be freed on failure too.
bool unigram_build(unigram_model *model, const vocab *v, const tokenizer_spec *spec,
                   engine_error *err);
void unigram_free(unigram_model *model);

// Sets lower_case and strip_accents; what is negative is told from the pieces: text that is simplified must
// be able to reach them.
void wordpiece_guess(tokenizer *t, int lower_case, int strip_accents);

// The bytes of the character that text begins with; an invalid byte is a character by itself.
size_t sentencepiece_character_bytes(const char *text, size_t text_bytes);

// The end of the part that starts at `start` and can be encoded by itself.
size_t sentencepiece_word_end(const tokenizer *t, const tokenizer_text *text, size_t start);

// Appends the ids of the joined symbols of a word. Bytes of a symbol without a piece become their byte
// pieces, else the unknown piece.
bool encode_symbols(encode_work *work, const char *word, size_t fragment_start);

bool encode_no_memory(encode_work *work); // reports and returns false

#endif
