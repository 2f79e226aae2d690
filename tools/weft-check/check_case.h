// SPDX-License-Identifier: MIT
#ifndef WEFT_CHECK_CASE_H
#define WEFT_CHECK_CASE_H

#include <pthread.h>

#include "src/kernels/check.h"

void check_catch_crashes(void);

// Runs the check on a prepared case and frees the case's memory.
void check_case_run(struct check_case *c, check_fn *check);

#endif
