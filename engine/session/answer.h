// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_ANSWER_H
#define ENGINE_SESSION_ANSWER_H

// The text of an answer as its tokens come: whole UTF-8 characters, never part of a stop string.

#include "engine/session/stop_filter.h"

typedef struct answer {
    const tokenizer *tokenizer; // NULL: tokens have no text
    tokenizer_decoder decoder;
    tokenizer_text piece;
    stop_filter filter; // filter.stopped: a stop string came up, there will be no more text
} answer;

// Takes room ahead, so that adding tokens seldom needs memory. stops: a NULL-terminated list that lives as
// long as the answer, or NULL. On failure answer_free is still due.
bool answer_begin(answer *a, const tokenizer *t, const char *const *stops, engine_error *err);

// Adds a token, or the end of the text; then answer_text is what has become certain, until answer_written.
bool answer_add(answer *a, int32_t token, engine_error *err);
bool answer_finish(answer *a, engine_error *err);
tokenizer_bytes answer_text(const answer *a);
void answer_written(answer *a);

void answer_free(answer *a);

#endif
