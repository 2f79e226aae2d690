// SPDX-License-Identifier: MIT
#ifndef CLI_TRANSCRIPT_H
#define CLI_TRANSCRIPT_H

// The messages of a conversation: at most one of the system, then turns of a question and its answer, then
// perhaps a question. Start from zeros; release with cli_transcript_free.

#include "engine/engine.h"

typedef struct cli_transcript {
    chat_message *messages; // content and members are owned
    size_t count, room;
} cli_transcript;

// How messages become tokens.
typedef struct cli_transcript_form {
    const chat_template *template; // NULL: one text, a line end behind every message
    chat_options options;
    const tokenizer *tokenizer;
} cli_transcript_form;

// Adds a copy; false when memory is short. The role is not copied.
bool cli_transcript_add(cli_transcript *t, const char *role, const char *content, size_t bytes);
// The same of an answer, whose thoughts become a member of the message, "reasoning_content", if there are any:
// templates that show thoughts of turns before know it.
bool cli_transcript_answer(cli_transcript *t, const tokenizer_text *text,
                           const tokenizer_text *thoughts);
void cli_transcript_remove_last(cli_transcript *t);
void cli_transcript_free(cli_transcript *t); // and zeroes it

enum { CLI_TRANSCRIPT_KEEP = 0 };

// Encodes the conversation, whose last message is a question. If that takes more than `wanted` tokens,
// the oldest turns are dropped until a third of that is free, for all that follows must be evaluated anew,
// and *dropped_turns says how many; with nothing left to drop, or with CLI_TRANSCRIPT_KEEP wanted, it may take
// `most`. On failure nothing is dropped.
bool cli_transcript_fit(cli_transcript *t, const cli_transcript_form *form, size_t wanted,
                        size_t most, tokenizer_ids *ids, int *dropped_turns, engine_error *err);

#endif
