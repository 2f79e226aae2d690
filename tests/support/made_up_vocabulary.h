// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_MADE_UP_VOCABULARY_H
#define TESTS_SUPPORT_MADE_UP_VOCABULARY_H

// A tokenizer of SentencePiece's kind, whose pieces are what they are written as: "<unk>", "</s>", all bytes,
// then made-up words, the earlier ones the likelier.

#include "engine/tokenizer/tokenizer.h"

enum { MADE_UP_WORD_BYTES = 96 };

// Writes the n-th word, at most MADE_UP_WORD_BYTES, and returns its size. It may begin with a space.
typedef size_t made_up_word(uint32_t n, char *text);

tokenizer *made_up_vocabulary(uint32_t words, made_up_word *word, engine_error *err);

#endif
