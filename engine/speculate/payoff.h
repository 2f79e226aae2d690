// SPDX-License-Identifier: MIT
#ifndef ENGINE_SPECULATE_PAYOFF_H
#define ENGINE_SPECULATE_PAYOFF_H

// Whether guessing pays, as arithmetic. A pass of n rows is taken to cost `pass + row * n` seconds, fitted to
// the passes that were timed; a guess costs a row and what it took to make it, and brings as many tokens as the
// probability that all the way up to it proves right. It is worth making while that is more than what the pass
// as it is, with the guesses before, brings in the time that the guess costs.
//
// How fast a machine is may change from one second to the next, where others use it: what is fitted are costs
// in passes of one row, as long as those take at the time, and no pass counts for much more or less than was
// expected of it.

#include <stdbool.h>
#include <stdint.h>

typedef struct payoff_costs {
    double one; // seconds of a pass of one row, as the machine is now; 0: nothing was timed
    double weight, rows, times, rows_rows,
        rows_times; // sums over passes, times in passes of one row
} payoff_costs;

void payoff_time(payoff_costs *costs, int32_t rows, double seconds); // a pass that only decoded

// Of guesses of one kind that were put to the test, how many were right; older ones counting less and less.
typedef struct payoff_record {
    double tried, right;
} payoff_record;

void payoff_learn(payoff_record *record, bool right);

// How likely the next one is right, where `assumed` is what is thought before anything is known.
double payoff_right(const payoff_record *record, double assumed);

// Guesses of the kind were not worth making: it is tried again now and then.
void payoff_fade(payoff_record *record);

// A pass as it is planned: what it takes and brings, and what a row more costs.
typedef struct payoff_pass {
    double seconds, tokens, row;
} payoff_pass;

// `rows` rows that are evaluated anyway, and seconds that are spent already.
payoff_pass payoff_begin(const payoff_costs *costs, int32_t rows, double spent);

// Is a guess that is right with the probability worth a row and the seconds of making it? Then it is added.
bool payoff_add(payoff_pass *pass, double right, double seconds);

#endif
