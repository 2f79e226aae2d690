// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_STEP_COST_H
#define TESTS_SUPPORT_STEP_COST_H

// What a scheduler's thread does beside the passes and draws that it asks for, step by step, in seconds of the
// processor: who else uses the machine changes little of them. For a test that the linker gives
// -Wl,--wrap=engine_pass,--wrap=engine_sample_all, and one scheduler.

#include <stdint.h>

enum { STEP_COST_MOST = 1024 };

// A step begins where the draws of the one before it end.
typedef struct step_cost {
    double outside, inside; // pass and draws
} step_cost;

// From now on; read them when nothing runs any more. Steps past the last are not noted.
void step_cost_begin(void);
const step_cost *step_costs(int32_t *count);

// Of `count` of them together, outside over inside.
double step_cost_share(const step_cost *steps, int32_t count);

#endif
