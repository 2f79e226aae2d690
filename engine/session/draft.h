// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_DRAFT_H
#define ENGINE_SESSION_DRAFT_H

// A smaller model that writes on where a text ends.

#include "engine/session/session.h"

enum { DRAFT_WAYS = 3 }; // tokens that it holds likely at one place

typedef struct drafter {
    engine_worker *worker;    // NULL: there is none
    engine_sampling sampling; // of the text, as far as the library's sampler goes
    engine_session *session;  // opened when it is needed
    double seconds;           // that a token takes; 0: not known
} drafter;

// The token that it draws with the text's own seed first: where both models are of one mind, that is the model's. Then
// the likeliest others.
typedef struct draft_step {
    int32_t count;
    int32_t tokens[DRAFT_WAYS];
    double likely[DRAFT_WAYS]; // of those that the ones before leave, how much
} draft_step;

void draft_begin(drafter *d, engine_worker *worker, const engine_sampling *sampling);
void draft_end(drafter *d);

// Brings its timeline to all but the last of the ids, for at most `most` tokens; returns how many there is room
// for, 0 on failure, after which there is none.
int32_t draft_follow(drafter *d, const int32_t *ids, int32_t count, int32_t most);

// Evaluates a token behind the timeline and says what it holds likely there.
bool draft_ask(drafter *d, int32_t token, draft_step *step);

// The same for `count` tokens in a row, the one drawn last evaluated next.
bool draft_chain(drafter *d, int32_t token, int32_t count, int32_t *tokens);

#endif
