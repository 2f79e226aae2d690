// SPDX-License-Identifier: MIT
#ifndef CLI_TUNE_TUNE_LINEAR_H
#define CLI_TUNE_TUNE_LINEAR_H

#include "cli/bench/bench_linear.h"

// Runs the problem once and holds the first, the middle and the last rows against the reference: the largest
// error over its bound. judge: the CPU whose reference is asked for what a GPU has computed, or NULL: the
// problem's own. False with a message.
bool tune_linear_check(linear_problem *p, weft_context *judge, double *worst);

#endif
