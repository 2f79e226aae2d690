// SPDX-License-Identifier: MIT
#ifndef ENGINE_SPECULATE_LOOKUP_H
#define ENGINE_SPECULATE_LOOKUP_H

// Guesses what follows in a text from what followed where its end stood before: every pair of tokens is kept with
// the places where it occurred, the latest first, and those that agree with the end the longest are gone on
// from. A place costs a comparison and a few are looked at, so a guess costs microseconds.

#include "engine/speculate/guess_tree.h"

typedef struct lookup {
    int32_t *heads;  // by hash of a pair: 1 + where its second token is; 0: nowhere
    int32_t *before; // [room]: where the same hash came before, likewise
    int32_t room;    // tokens of the longest text
    int32_t count;   // of its tokens, whose pairs are kept
} lookup;

enum { LOOKUP_SHORTEST = 2, LOOKUP_LONGEST = 16 }; // tokens that agree
enum { LOOKUP_WAYS = 4, LOOKUP_MOST = 15 };        // from as many places, and as far

// False when memory is short; lookup_free is then still due.
bool lookup_make(lookup *l, int32_t room);
void lookup_free(lookup *l); // all-zero is fine

// Another text comes.
void lookup_clear(lookup *l);

// What came behind ids[count] at `ways` places, at most LOOKUP_WAYS, that differ in it, `most` tokens each, at most
// LOOKUP_MOST: those that agree the longest first, of equal ones the latest. The kind of a guess is how many
// tokens agree before its place, at most LOOKUP_LONGEST. The first l->count ids are those of the call before,
// count is at most the room.
void lookup_guess(lookup *l, const int32_t *ids, int32_t count, int32_t most, int32_t ways,
                  guess_tree *guesses);

#endif
