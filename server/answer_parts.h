// SPDX-License-Identifier: MIT
#ifndef SERVER_ANSWER_PARTS_H
#define SERVER_ANSWER_PARTS_H

// Takes the text of an answer apart as it comes: thoughts, what is said, calls of functions with their arguments.
// What may be the beginning of a mark is held back until that is certain.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

typedef enum answer_part {
    PART_THOUGHT,
    PART_TEXT,
    PART_CALL,      // a call begins: its name
    PART_ARGUMENTS, // more of the arguments of that call, as JSON
} answer_part;

typedef struct answer_parts {
    const call_style *style; // NULL: calls are text
    bool thinks;             // sections of thinking are recognised
    void (*say)(void *user, answer_part part, const char *text, size_t bytes);
    void *user;
    // where it stands
    uint8_t section; // zero: nothing has come yet
    tokenizer_text held;
    int32_t depth; // of brackets in a call
    uint8_t value; // of a member that is being read: none, name, arguments
    bool in_string, escaped, is_key, any_text;
    tokenizer_text word; // a key, or the name
    int32_t calls;
    bool no_memory;
} answer_parts;

// The answer begins inside of a section of thinking.
void answer_parts_think(answer_parts *parts);

void answer_parts_add(answer_parts *parts, const char *text, size_t bytes);
// There will be no more.
void answer_parts_end(answer_parts *parts);
void answer_parts_free(answer_parts *parts);

#endif
