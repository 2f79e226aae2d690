// SPDX-License-Identifier: MIT
#ifndef ENGINE_SCHEDULE_CHOOSE_H
#define ENGINE_SCHEDULE_CHOOSE_H

// What a forward pass is made of: arithmetic on numbers alone, the same answer for the same question, so that
// it can be tested with a clock that is made up.
//
// Who is *before* whom: the higher priority; of equal ones who came earlier. Among those that are to be given
// something in turns (a place, a piece of a prompt), a user who has been served less comes before arrival.

#include <stdbool.h>
#include <stdint.h>

typedef struct schedule_entry {
    int32_t tag;      // the caller's
    int32_t priority; // larger goes first
    uint64_t arrival; // each its own; smaller came earlier
    int64_t served;   // tokens evaluated for its user; a user's entries agree
    int32_t user;     // 0 .. users - 1
    int32_t count;    // tokens of its timeline, >= 1
    int32_t length;   // of these, whose keys are in the pool; < count
    int32_t pages;    // it holds
    int32_t own;      // of these, that nobody else holds: what preempting it gives
    bool copies;      // the next token goes to a page that is shared, which takes a page more
    bool resumes;     // waits again after it was preempted
    bool held;        // waits for tokens that another one is just evaluating
    // The answer.
    int64_t given;  // schedule_join: tokens that its user was given a place for
    bool joins;     // schedule_join
    bool preempted; // schedule_pass: gives its pages back and waits
    bool stuck;     // schedule_pass: it is alone and the pool is too small
    int32_t tokens; // schedule_pass: so many are evaluated
} schedule_entry;

typedef struct schedule_limits {
    int32_t budget_tokens; // of one pass; at least one per place
    int32_t places;        // that are free
    int32_t page_tokens;
    int32_t free_pages;
} schedule_limits;

// Which of those that wait join those that run: as many as there are places and pages for all their tokens,
// beside those that the running ones still need for theirs and one more for each. One always joins if nobody
// runs.
void schedule_join(const schedule_limits *limits, const schedule_entry *running,
                   int32_t running_count, schedule_entry *waiting, int32_t waiting_count);

// How many tokens of each of those that run are evaluated: one of all that wait for a single one, then pieces of
// the others' within the budget, a user who has been served less first. Where pages run out, the last of all is
// preempted. Entries are put in another order.
void schedule_pass(const schedule_limits *limits, schedule_entry *running, int32_t count);

#endif
