// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_STRETCH_H
#define ENGINE_CONSTRAIN_STRETCH_H

// How far a place in a text takes any characters of some kinds, whichever they are: the body of a string for ever, one
// of at most so many characters for so many. A *stretch* of a state is the run of what goes on from it so that all
// characters of these kinds lead to the same next state, and that again, with all of these kinds. What is within it
// can come and need not be walked.

#include "engine/constrain/char_kind.h"
#include "engine/constrain/machine.h"

typedef struct stretch_step {
    uint32_t next;  // where they all lead
    uint32_t kinds; // all of whose characters do
} stretch_step;

// Of one with an end: longer tokens are walked.
enum { STRETCH_LONGEST = CHAR_RUN_LONG - 1 };

enum {
    STRETCH_ANY,
    STRETCH_INSIDE,
    STRETCH_WAYS
}; // inside: the text must not be able to end along it

typedef struct stretch_table {
    machine *machine;
    stretch_step *steps;         // [room], by state
    char_run *run[STRETCH_WAYS]; // [room], by state
    size_t room;
} stretch_table;

// Into a zeroed table.
void stretch_open(stretch_table *t, machine *m);
void stretch_free(stretch_table *t);

// 0: of no character. Never with CHAR_KIND_OTHER; CHAR_RUN_LONG is without end.
char_run stretch_of(stretch_table *t, uint32_t state, bool inside);

// Need it not be worked out?
bool stretch_known(const stretch_table *t, uint32_t state, bool inside);

// States have other numbers now.
void stretch_forget(stretch_table *t);

#endif
