// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_LINEAR_H
#define WEFT_PLAN_LINEAR_H

#include <weft/linear.h>

#include "src/plan/plan.h"

struct weft__linear_launch;

// How the rows are cut into tasks for so many threads: sets rows_per_task,
// rows_per_batch_task and alone_rows.
void weft__plan_linear_split(struct weft__linear_launch *launch, int64_t row_bytes,
                             int32_t threads);

weft__plan_fn weft__plan_linear; // of a weft_linear_desc

#endif
