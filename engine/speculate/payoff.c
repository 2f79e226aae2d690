// SPDX-License-Identifier: MIT
#include "engine/speculate/payoff.h"

static const double kept_costs = 0.99, // of what was measured, with each pass
    kept_record = 0.97,                // with each guess that was put to the test
    fades = 0.98,                      // with each time that it is not tried
    assumed_tries = 2,                 // as which what is assumed counts
    assumed_row = 0.1,                 // of a pass of one row: what another costs ...
    assumed_spread = 16, // ... which counts as much as a pass of four rows more than others
    follows = 0.5,       // of a change in the machine's speed, with each pass
    strange = 1.5,       // times as long or as short as expected: no pass counts for more
    margin = 1.1;        // what a guess must bring, of what it costs

// In passes of one row: what a row more costs, and a pass of `rows` rows.
static void costs_of(const payoff_costs *costs, double rows, double *row, double *pass)
{
    double n = 1, t = 1, spread = 0, slope = 0;
    if (costs->weight > 0) {
        n = costs->rows / costs->weight;
        t = costs->times / costs->weight;
        spread = costs->rows_rows - costs->weight * n * n;
        slope = costs->rows_times - costs->weight * n * t;
    }
    double assumed = assumed_row * t / (1 + assumed_row * (n - 1));
    *row = (slope + assumed_spread * assumed) / (spread + assumed_spread);
    if (*row < 0)
        *row = 0;
    *pass = t + *row * (rows - n);
    if (*pass < *row * rows)
        *pass = *row * rows;
}

void payoff_time(payoff_costs *costs, int32_t rows, double seconds)
{
    double n = rows, row, expected;
    costs_of(costs, n, &row, &expected);
    if (costs->one <= 0)
        costs->one = seconds / expected;
    double speed = costs->one > 0 ? seconds / (expected * costs->one) : 1;
    speed = speed < 1 / strange ? 1 / strange : speed > strange ? strange : speed;
    double time = expected * speed;
    costs->weight = costs->weight * kept_costs + 1;
    costs->rows = costs->rows * kept_costs + n;
    costs->times = costs->times * kept_costs + time;
    costs->rows_rows = costs->rows_rows * kept_costs + n * n;
    costs->rows_times = costs->rows_times * kept_costs + n * time;
    costs->one *= 1 + follows * (speed - 1);
}

void payoff_learn(payoff_record *record, bool right)
{
    record->right = record->right * kept_record + right;
    record->tried = record->tried * kept_record + 1;
}

double payoff_right(const payoff_record *record, double assumed)
{
    return (record->right + assumed * assumed_tries) / (record->tried + assumed_tries);
}

void payoff_fade(payoff_record *record)
{
    record->right *= fades;
    record->tried *= fades;
}

payoff_pass payoff_begin(const payoff_costs *costs, int32_t rows, double spent)
{
    double row, pass;
    costs_of(costs, rows, &row, &pass);
    return (payoff_pass){pass * costs->one + spent, rows, row * costs->one};
}

bool payoff_add(payoff_pass *pass, double right, double seconds)
{
    double costs = pass->row + seconds;
    if (!(right * pass->seconds > margin * costs * pass->tokens))
        return false;
    pass->seconds += costs;
    pass->tokens += right;
    return true;
}
