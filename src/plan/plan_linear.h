// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_LINEAR_H
#define WEFT_PLAN_LINEAR_H

#include <weft/linear.h>

#include "src/kernels/linear/linear_kernel.h"
#include "src/plan/plan.h"

// How the rows are cut into tasks for so many threads: sets rows_per_task,
// rows_per_batch_task and alone_rows.
void weft__plan_linear_split(struct weft__linear_launch *launch, int64_t row_bytes,
                             int32_t threads);

#endif
