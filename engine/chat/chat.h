// SPDX-License-Identifier: MIT
#ifndef ENGINE_CHAT_CHAT_H
#define ENGINE_CHAT_CHAT_H

// Chat templates. A model file carries its template as a program in Jinja (tokenizer.chat_template); it is
// rendered as transformers renders it (engine/chat/jinja/), in a box.
//
// Nothing inside a message can become a control token: only what the template itself writes is searched for
// them, and all else is encoded as plain text.

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/error.h"
#include "engine/constrain/call_style.h"
#include "engine/tokenizer/tokenizer.h"

typedef struct chat_message {
    const char *role;    // "system", "user", "assistant", "tool": what the template knows
    const char *content; // UTF-8; may hold anything
    size_t content_bytes;
    const char *members; // a JSON object with more members, such as tool_calls; NULL: none
} chat_message;

typedef enum chat_thinking {
    CHAT_THINKING_DEFAULT = 0, // the template's own choice
    CHAT_THINKING_ON,
    CHAT_THINKING_OFF, // models that know the toggle (Qwen3) answer at once; nothing for others
} chat_thinking;

// All-zero is the default.
typedef struct chat_options {
    bool add_generation_prompt; // end with the opening of the assistant's turn
    chat_thinking thinking;
    const char *date;      // "26 Jul 2024", for templates that state today's date; NULL: theirs
    const char *tools;     // a JSON array of functions that the model may call; NULL: none
    const char *documents; // a JSON array of texts that the model may answer from; NULL: none
} chat_options;

typedef struct chat_template chat_template;

// Reads a template. One that is missing (empty), cannot be read or never looks at the messages is refused
// with a text that names --raw.
chat_template *chat_template_parse(const char *text, size_t text_bytes, engine_error *err);

// The template of a model file (tokenizer.chat_template).
chat_template *chat_template_from_gguf(const gguf_file *file, engine_error *err);

// How its models write calls of functions and thoughts; NULL: it shows no way of ours. t may be NULL.
const call_style *chat_template_calls(const chat_template *t);
const thought_style *chat_template_thoughts(const chat_template *t);

// t may be NULL.
void chat_template_free(chat_template *t);

// Appends the conversation as ids, ready for the model: bos is there where the template writes it, and
// first where the vocabulary adds it to any text, so nothing need be added. Refused are an empty
// conversation, one that the template refuses, and one of whose system and user messages it would lose one
// without a word. On failure ids is as it was.
bool chat_encode(const chat_template *t, const tokenizer *tok, const chat_message *messages,
                 size_t message_count, const chat_options *options, tokenizer_ids *ids,
                 engine_error *err);

// The same as text, for people and tests: do not encode it, for it no longer tells the template's control
// tokens from those that someone typed.
bool chat_render(const chat_template *t, const tokenizer *tok, const chat_message *messages,
                 size_t message_count, const chat_options *options, tokenizer_text *text,
                 engine_error *err);

#endif
