// SPDX-License-Identifier: MIT
#ifndef ENGINE_TOKENIZER_NORMALIZE_H
#define ENGINE_TOKENIZER_NORMALIZE_H

#include "engine/tokenizer/tokenizer.h"

// Appends text, which is valid UTF-8, in Unicode's canonical composed form (NFC). A stretch of non-ASCII
// text with more than 256 combining marks in a row is copied as it is, for sorting those takes quadratic
// time. False when memory is short.
bool normalize_compose(const char *text, size_t text_bytes, tokenizer_text *composed);

// The length of the valid UTF-8 at the start of text.
size_t normalize_valid_bytes(const char *text, size_t text_bytes);

#endif
