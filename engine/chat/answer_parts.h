// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_ANSWER_PARTS_H
#define ENGINE_CHAT_ANSWER_PARTS_H

// Takes the text of an answer apart as it comes: thoughts, of which there may be several sections, what is
// said, calls of functions with their arguments.
// What may be the beginning of a mark is held back until that is certain.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/chat/call_parts.h"
#include "engine/constrain/answer_form.h"

typedef struct answer_parts {
    const thought_style *thoughts; // of the template; NULL: it knows none
    bool thinks;                   // else sections of thinking are text
    call_parts calls;              // calls.style NULL: calls are text
    // where it stands
    uint8_t section; // zero: nothing has come yet
    bool any_text, any_thought, no_memory;
    tokenizer_text held;
} answer_parts;

// May the answer to a prompt begin with a section of thinking, or does the prompt end inside of one? The style
// as above.
answer_thoughts answer_thoughts_of(const thought_style *thoughts, const tokenizer *t,
                                   const tokenizer_ids *prompt);

// The answer begins inside of a section of thinking.
void answer_parts_think(answer_parts *parts);

// Adds what became certain with a token (TOKENIZER_NONE: with none). Marks that are special tokens are no text
// of an answer, but say where its parts begin.
void answer_parts_token(answer_parts *parts, const tokenizer *t, int32_t token, const char *text,
                        size_t bytes);
void answer_parts_add(answer_parts *parts, const char *text, size_t bytes);
// There will be no more.
void answer_parts_end(answer_parts *parts);
void answer_parts_free(answer_parts *parts);

#endif
