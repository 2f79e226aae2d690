// SPDX-License-Identifier: MIT
#ifndef ENGINE_SPECULATE_PAYOFF_H
#define ENGINE_SPECULATE_PAYOFF_H

// Whether guessing pays, as arithmetic. A pass of n rows is taken to cost `pass + row * n` seconds, which is fitted to
// the passes that were timed; a guess costs a row and what it took to make it; the i-th guess in a row proves right with
// the probability p^i. A guess is worth making while what it brings, p^i tokens, is more than what the pass as it is,
// with the guesses before, brings in the time that it costs.

#include <stdint.h>

// A line through points, older ones counting less and less.
typedef struct payoff_costs {
    double weight, rows, seconds, rows_rows, rows_seconds; // sums
} payoff_costs;

void payoff_time(payoff_costs *costs, int32_t rows, double seconds); // a pass that only decoded

// Of guesses of one kind, how many were right; older ones counting less and less.
typedef struct payoff_record {
    double tried, right;
} payoff_record;

// `guesses` in a row were made, of which the first `right` proved right.
void payoff_learn(payoff_record *record, int32_t guesses, int32_t right);

// How many guesses in a row, each of which takes `guess_seconds` to make, are worth making beside `rows` rows that are
// evaluated anyway, at most `most`. Where it is none the record fades, so that it is tried again now and then.
int32_t payoff_guesses(const payoff_costs *costs, double guess_seconds, payoff_record *record,
                       int32_t rows, int32_t most);

#endif
