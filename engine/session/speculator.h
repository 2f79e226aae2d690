// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_SPECULATOR_H
#define ENGINE_SESSION_SPECULATOR_H

// What guesses for one text, and what has become of its guesses.

#include "engine/session/draft.h"
#include "engine/speculate/guess_tree.h"
#include "engine/speculate/lookup.h"

enum {
    // Kinds of guesses: by how many tokens agreed; by how likely a draft holds them; those of a draft in a row.
    SPECULATOR_LOOKUPS = 4,
    SPECULATOR_DRAFTS = 6,
    SPECULATOR_ROW = SPECULATOR_LOOKUPS + SPECULATOR_DRAFTS,
    SPECULATOR_KINDS,
    SPECULATOR_RANKS = 3,
};

typedef struct speculator {
    engine_speculation wish;
    lookup lookup; // if wished
    drafter draft; // likewise
    payoff_record records[SPECULATOR_KINDS][SPECULATOR_RANKS];
    guess_tree guesses; // the last ones
    int32_t at;         // the guess that the text has come to; -1: none of them
    int64_t guessed, accepted;
} speculator;

// For texts of at most `room` tokens. False when memory is short; speculator_end is then still due. All-zero is one
// that never guesses.
bool speculator_begin(speculator *s, const engine_speculation *wish,
                      const engine_sampling *sampling, int32_t room);
void speculator_end(speculator *s);

// Guesses what follows ids[count], at most `most` tokens, where it pays beside `rows` rows of a pass; in a row, or with
// `branches`. Returns how many are in s->guesses.
int32_t speculator_guess(speculator *s, const payoff_costs *costs, const int32_t *ids,
                         int32_t count, int32_t rows, int32_t most, bool branches);

// The text goes on with the token: was it guessed?
bool speculator_learn(speculator *s, int32_t token);

#endif
