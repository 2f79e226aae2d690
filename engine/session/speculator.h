// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_SPECULATOR_H
#define ENGINE_SESSION_SPECULATOR_H

// What guesses for one text, and what has become of its guesses.

#include "engine/session/session.h"
#include "engine/speculate/lookup.h"
#include "engine/speculate/payoff.h"

enum {
    SPECULATOR_KINDS = 5, // of guesses: by how many tokens agreed, and those of a draft model
};

typedef struct speculator {
    engine_speculation wish;
    engine_sampling sampling; // of the text
    lookup lookup;            // if wished
    engine_session *draft;    // opened when it is needed
    bool no_draft;            // it failed
    double draft_seconds;     // that a guess of the draft takes; 0: not known
    payoff_record records[SPECULATOR_KINDS];
    int32_t kind, made;                  // of the last guesses
    int32_t guesses[ENGINE_MAX_GUESSES]; //
    int64_t guessed, accepted;
} speculator;

// For texts of at most `room` tokens. False when memory is short; speculator_end is then still due. All-zero is one
// that never guesses.
bool speculator_begin(speculator *s, const engine_speculation *wish,
                      const engine_sampling *sampling, int32_t room);
void speculator_end(speculator *s);

// Guesses what follows ids[count], at most `most` tokens, where it pays beside `rows` rows of a pass; returns how many
// are in s->guesses.
int32_t speculator_guess(speculator *s, const payoff_costs *costs, const int32_t *ids,
                         int32_t count, int32_t rows, int32_t most);

// So many of the last guesses were right.
void speculator_learn(speculator *s, int32_t right);

#endif
