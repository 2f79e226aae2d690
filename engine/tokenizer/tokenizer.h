// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_TOKENIZER_H
#define ENGINE_TOKENIZER_TOKENIZER_H

// Text to token ids and back, for the kinds of vocabulary that GGUF files of language models carry:
// SentencePiece-style BPE with scores ("llama"), byte-level BPE with merges ("gpt2"), SentencePiece's Unigram
// ("t5") and WordPiece ("bert").
//
// A tokenizer never changes once it is made; any number of threads may use it at the same time.
//
// Any bytes can be encoded. Where text is not valid UTF-8 its bytes stand for themselves: a byte-level
// vocabulary encodes each run of invalid bytes as a word of its own, a SentencePiece vocabulary turns
// each invalid byte into its byte token. Joining tokenizer_piece of all ids gives back the bytes that
// went in, with these exceptions: SentencePiece puts a space in front of text (add_space_prefix), reads
// U+2581 as a space, and loses what has neither a piece nor byte tokens to the unknown token;
// vocabularies that normalise (qwen2: NFC; Unigram and WordPiece by rules of their own) give back the
// normalised text, WordPiece with a space in front of each word and punctuation mark.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

typedef struct gguf_file gguf_file;
typedef struct tokenizer tokenizer;

// Bytes that need not be UTF-8 and are not NUL-terminated.
typedef struct tokenizer_bytes {
    const char *data;
    size_t size_bytes;
} tokenizer_bytes;

typedef enum tokenizer_kind {
    TOKENIZER_SENTENCEPIECE = 1, // "llama"
    TOKENIZER_BYTE_LEVEL = 2,    // "gpt2"
    TOKENIZER_WORDPIECE = 3,     // "bert"
    TOKENIZER_UNIGRAM = 4,       // "t5"
} tokenizer_kind;

// As stored in tokenizer.ggml.token_type.
typedef enum tokenizer_piece_type {
    TOKENIZER_NORMAL = 1,
    TOKENIZER_UNKNOWN = 2,
    TOKENIZER_CONTROL = 3,      // found in text only with TOKENIZER_PARSE_SPECIAL
    TOKENIZER_USER_DEFINED = 4, // found in text always, before anything else is
    TOKENIZER_UNUSED = 5,       // never produced by encoding
    TOKENIZER_BYTE = 6,         // "<0x41>" of a SentencePiece or Unigram vocabulary
} tokenizer_piece_type;

enum {
    TOKENIZER_NONE = -1, // an id that the vocabulary does not have
    TOKENIZER_MAX_PIECES = 1 << 24,
    TOKENIZER_MAX_PIECE_BYTES = 1 << 16,
    TOKENIZER_MAX_SPECIAL_BYTES = 1024, // of control and user-defined pieces
    TOKENIZER_MAX_TEXT_BYTES = 1 << 26, // of one call
};

// A vocabulary as plain arrays, in the terms of GGUF metadata. Nothing is kept of it after
// tokenizer_create. Start from tokenizer_spec_default.
typedef struct tokenizer_spec {
    tokenizer_kind kind;
    const char *pre; // byte-level: "llama-bpe", "qwen2", "tekken", "gpt-2" or "smollm"
    const tokenizer_bytes *pieces;
    size_t piece_count;
    const float *scores;  // [piece_count]; SentencePiece and Unigram need it
    const int32_t *types; // [piece_count] of tokenizer_piece_type; NULL: told from the pieces
    const tokenizer_bytes *merges; // "left right", best first; byte-level needs it
    size_t merge_count;
    int32_t bos, eos, eot, eom, unknown, padding; // TOKENIZER_NONE if there is none
    int add_bos, add_eos;                         // 1, 0, or -1 for what models of this kind do
    bool add_space_prefix;         // SentencePiece, Unigram: a space before each run of text
    bool remove_extra_whitespaces; // SentencePiece, Unigram: strip and squeeze spaces
    const unsigned char *charsmap; // Unigram: SentencePiece's precompiled_charsmap; NULL: none
    size_t charsmap_bytes;
    int lower_case, strip_accents; // WordPiece: 1, 0, or -1 to tell from the pieces
} tokenizer_spec;

tokenizer_spec tokenizer_spec_default(tokenizer_kind kind);

// Checks the vocabulary and builds a tokenizer. Refused, with a text: no pieces; empty or over-long
// pieces; two normal or two special pieces of the same text; types, ids or scores out of range; merges
// that are not two pieces of the vocabulary whose joint text is a piece; byte pieces that are not exactly
// "<0xHH>"; an unknown pre-tokenizer; a SentencePiece or Unigram vocabulary with neither byte pieces nor an
// unknown piece, a WordPiece one without the latter; a charsmap that does not hold what it says.
tokenizer *tokenizer_create(const tokenizer_spec *spec, engine_error *err);

// From the tokenizer.ggml.* keys of a model file.
tokenizer *tokenizer_from_gguf(const gguf_file *file, engine_error *err);

// t may be NULL.
void tokenizer_free(tokenizer *t);

// --- the vocabulary -----------------------------------------------------------------------------------

size_t tokenizer_size(const tokenizer *t); // ids are 0 to size - 1
tokenizer_kind tokenizer_get_kind(const tokenizer *t);
const char *
tokenizer_pre(const tokenizer *t); // name of the pre-tokenizer; "" for all but byte-level

// TOKENIZER_NONE if the vocabulary has none.
int32_t tokenizer_bos(const tokenizer *t);
int32_t tokenizer_eos(const tokenizer *t);
int32_t tokenizer_unknown(const tokenizer *t); // never the bos or an end of a byte-level vocabulary
bool tokenizer_adds_bos(const tokenizer *t);
bool tokenizer_adds_eos(const tokenizer *t);

// True for every id that ends a generation: eos, eot, eom and control pieces known by their text, such
// as <|eot_id|>, <|im_end|> and <|endoftext|>. False for ids out of range.
bool tokenizer_is_end(const tokenizer *t, int32_t id);

// True for control, unknown and unused pieces, which are not text. False for ids out of range.
bool tokenizer_is_special(const tokenizer *t, int32_t id);

// The bytes that the id stands for in text: spaces instead of U+2581, one byte for a byte piece, the
// name ("<|im_end|>") of a special one. They live as long as the tokenizer. False if id is out of range.
bool tokenizer_piece(const tokenizer *t, int32_t id, tokenizer_bytes *piece);

// The id of the control or user-defined piece with this text, or TOKENIZER_NONE.
int32_t tokenizer_find_special(const tokenizer *t, const char *text, size_t text_bytes);

// The first special piece (control, user-defined, unknown) in text[from .. text_bytes), the longest at its
// place, or TOKENIZER_NONE.
int32_t tokenizer_next_special(const tokenizer *t, const char *text, size_t text_bytes, size_t from,
                               size_t *start, size_t *size_bytes);

// --- encoding -----------------------------------------------------------------------------------------

// A growing list of ids. Start from zeros; release with tokenizer_ids_free.
typedef struct tokenizer_ids {
    int32_t *ids;
    size_t count;
    size_t capacity;
} tokenizer_ids;

bool tokenizer_ids_push(tokenizer_ids *list, int32_t id); // false when memory is short
void tokenizer_ids_free(tokenizer_ids *list);             // and zeroes it

enum {
    TOKENIZER_ADD_SPECIAL = 1, // bos and eos, where the model wants them
    TOKENIZER_PARSE_SPECIAL =
        2, // control pieces in the text become their ids; never for text of others
    TOKENIZER_SPACE_IS_PREFIX =
        4, // a space that the text begins with is the one that add_space_prefix asks for
};

// Appends the ids of text to list; flags are of the enum above. On failure (memory, a text that is too
// long, a byte that the vocabulary has no piece for) the list is as it was. Takes time that grows as
// n log n at worst, whatever the text.
bool tokenizer_encode(const tokenizer *t, const char *text, size_t text_bytes, unsigned flags,
                      tokenizer_ids *list, engine_error *err);

// --- decoding -----------------------------------------------------------------------------------------

// A growing text, NUL-terminated after the first append. Start from zeros; release with
// tokenizer_text_free.
typedef struct tokenizer_text {
    char *data;
    size_t size_bytes; // without the NUL
    size_t capacity;
} tokenizer_text;

bool tokenizer_text_append(tokenizer_text *text, const char *data, size_t size_bytes);
void tokenizer_text_free(tokenizer_text *text); // and zeroes it

enum {
    TOKENIZER_SHOW_SPECIAL = 1, // write the names of special pieces instead of nothing
    TOKENIZER_STRIP_SPACE_PREFIX =
        2, // drop the first space if the vocabulary adds one to text: for a
           // whole text, not for the continuation of a prompt
};

// Turns ids into text as they come and writes only whole UTF-8 characters: the bytes of a character that
// is not complete yet wait for the next id. What can never become a character is replaced by U+FFFD, one
// for each maximal part of a well-formed sequence, so the output is always valid UTF-8. Whoever wants the
// raw bytes joins tokenizer_piece.
typedef struct tokenizer_decoder {
    const tokenizer *t;
    unsigned flags;
    unsigned char waiting[4];
    unsigned waiting_bytes;
    bool started;
} tokenizer_decoder;

tokenizer_decoder tokenizer_decoder_start(const tokenizer *t, unsigned flags);

// Appends the text that id completes, which may be none.
bool tokenizer_decoder_feed(tokenizer_decoder *d, int32_t id, tokenizer_text *text,
                            engine_error *err);

// Appends U+FFFD if bytes of an unfinished character are left. The decoder can then start anew.
bool tokenizer_decoder_finish(tokenizer_decoder *d, tokenizer_text *text, engine_error *err);

// All of it at once.
bool tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, unsigned flags,
                      tokenizer_text *text, engine_error *err);

#endif
