// SPDX-License-Identifier: MIT
#ifndef ENGINE_SPECULATE_LOOKUP_H
#define ENGINE_SPECULATE_LOOKUP_H

// Guesses what follows in a text from what followed where its end stood before: every pair of tokens is kept with
// the places where it occurred, the latest first, and the place that agrees with the end the longest is gone on
// from. A place costs a comparison and a few are looked at, so a guess costs microseconds.

#include <stdbool.h>
#include <stdint.h>

typedef struct lookup {
    int32_t *heads;  // by hash of a pair: 1 + where its second token is; 0: nowhere
    int32_t *before; // [room]: where the same hash came before, likewise
    int32_t room;    // tokens of the longest text
    int32_t count;   // of its tokens, whose pairs are kept
} lookup;

enum { LOOKUP_SHORTEST = 2, LOOKUP_LONGEST = 16 }; // tokens that agree

// False when memory is short; lookup_free is then still due.
bool lookup_make(lookup *l, int32_t room);
void lookup_free(lookup *l); // all-zero is fine

// Another text comes.
void lookup_clear(lookup *l);

// The most likely tokens behind ids[count], at most `most`; returns how many there are. The first l->count ids are
// those of the call before, count is at most the room. *agreed: how many tokens before them agree, at most
// LOOKUP_LONGEST.
int32_t lookup_guess(lookup *l, const int32_t *ids, int32_t count, int32_t most, int32_t *guesses,
                     int32_t *agreed);

#endif
