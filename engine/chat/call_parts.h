// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_CALL_PARTS_H
#define ENGINE_CHAT_CALL_PARTS_H

// Calls of functions in an answer as their names and arguments, piece by piece, however a family writes them.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/constrain/call_style.h"
#include "engine/tokenizer/tokenizer.h"

typedef enum answer_part {
    PART_THOUGHT,
    PART_TEXT,
    PART_CALL,      // a call begins: its name
    PART_ARGUMENTS, // more of the arguments of that call, as JSON
} answer_part;

typedef struct call_parts {
    const call_style *style;
    const struct json_t *tools; // the functions that there are
    void (*say)(void *user, answer_part part, const char *text, size_t bytes);
    void *user;
    int32_t count; // of calls that have begun
    // where it stands
    uint8_t step, value;
    int32_t depth;  // of brackets
    size_t scanned; // of what is held
    bool in_string, escaped, is_key, is_call, is_text, any_argument, no_memory;
    const struct json_t *function;
    tokenizer_text word; // a key, or the name
    tokenizer_text out;  // of arguments
} call_parts;

// Behind the mark.
void call_parts_begin(call_parts *calls);

// Takes what it can from what is held. False: it is no call, but text of the answer.
bool call_parts_take(call_parts *calls, tokenizer_text *held);

// There will be no more. As call_parts_take.
bool call_parts_end(call_parts *calls, tokenizer_text *held);

void call_parts_free(call_parts *calls);

#endif
