// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_HELD_TEXT_H
#define ENGINE_CHAT_HELD_TEXT_H

// Text that is held back until it is certain what it is.

#include <stdbool.h>
#include <stddef.h>

#include "engine/tokenizer/tokenizer.h"

// The place of a mark (not empty) in a text, or of its beginning at the end (*whole is false); else the end.
size_t held_find(const tokenizer_text *held, const char *mark, bool *whole);

// Takes away what is before `at`.
void held_drop(tokenizer_text *held, size_t at);

bool held_is_blank(char c);
// How many blanks the text begins with; how many of the first `bytes` bytes are left without those at their end.
size_t held_blanks(const tokenizer_text *held);
size_t held_without_blanks(const tokenizer_text *held, size_t bytes);

#endif
