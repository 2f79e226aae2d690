// SPDX-License-Identifier: MIT
#include "engine/speculate/payoff.h"

static const double kept_costs = 0.95, // of what was measured, with each pass
    kept_record = 0.9,                 // with each try
    fades = 0.98,                      // with each time that it is not tried
    assumed_right = 0.65,              // before anything is known ...
    assumed_tries = 2,                 // ... which counts as much as so many guesses
    assumed_row = 0.1,                 // of a pass of one row: what another costs ...
    assumed_spread = 16, // ... which counts as much as a pass of four rows more than others
    margin = 1.1;        // what a guess must bring, of what it costs

void payoff_time(payoff_costs *costs, int32_t rows, double seconds)
{
    double n = rows;
    // One pass in which the machine did something else must not count for many.
    if (costs->weight > 0 && seconds > 4 * costs->seconds / costs->weight)
        seconds = 4 * costs->seconds / costs->weight;
    costs->weight = costs->weight * kept_costs + 1;
    costs->rows = costs->rows * kept_costs + n;
    costs->seconds = costs->seconds * kept_costs + seconds;
    costs->rows_rows = costs->rows_rows * kept_costs + n * n;
    costs->rows_seconds = costs->rows_seconds * kept_costs + n * seconds;
}

void payoff_learn(payoff_record *record, int32_t guesses, int32_t right)
{
    record->right = record->right * kept_record + right;
    record->tried = record->tried * kept_record + right + (right < guesses);
}

// Seconds of a row more, and of a pass of `rows` rows.
static void costs_of(const payoff_costs *costs, int32_t rows, double *row, double *pass)
{
    double n = costs->rows / costs->weight, t = costs->seconds / costs->weight;
    double spread = costs->rows_rows - costs->weight * n * n;
    double slope = costs->rows_seconds - costs->weight * n * t;
    double assumed = assumed_row * t / (1 + assumed_row * (n - 1));
    *row = (slope + assumed_spread * assumed) / (spread + assumed_spread);
    if (*row < 0)
        *row = 0;
    *pass = t + *row * (rows - n);
    if (*pass < *row * rows)
        *pass = *row * rows;
}

int32_t payoff_guesses(const payoff_costs *costs, double guess_seconds, payoff_record *record,
                       int32_t rows, int32_t most)
{
    double row, pass;
    double right =
        (record->right + assumed_right * assumed_tries) / (record->tried + assumed_tries);
    if (costs->weight <= 0 || rows < 1 || most < 1)
        return 0;
    costs_of(costs, rows, &row, &pass);
    double costs_more = row + guess_seconds, brings = right;
    double seconds = pass, tokens = rows; // that the pass takes and brings
    int32_t guesses = 0;
    for (; guesses < most && brings * seconds > margin * costs_more * tokens; brings *= right) {
        guesses++;
        seconds += costs_more;
        tokens += brings;
    }
    if (guesses == 0) {
        record->right *= fades;
        record->tried *= fades;
    }
    return guesses;
}
