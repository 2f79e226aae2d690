// SPDX-License-Identifier: MIT
// A loop whose tasks read what lies one behind the other. Each thread has a share of neighbours, from the
// front to the back, so that what a task asks memory for ahead of its end is its thread's own next task;
// who has none left takes the last of another's share.
#ifndef WEFT_BACKEND_CPU_STREAM_H
#define WEFT_BACKEND_CPU_STREAM_H

#include "src/backend/cpu/cpu.h"

// As weft__cpu_parallel_for().
void weft__cpu_stream_for(const weft_context *context, int32_t count, weft_task_fn *task,
                          void *work);

// Two such loops without a barrier between them: a task of the second is begun when every task of the first has been
// begun. So one of the second may wait for some of the first, whatever the executor.
void weft__cpu_stream_for_both(const weft_context *context, int32_t first_count,
                               weft_task_fn *first, int32_t then_count, weft_task_fn *then,
                               void *work);

#endif
