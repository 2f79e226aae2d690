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

#endif
