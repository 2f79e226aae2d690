// SPDX-License-Identifier: MIT
// The CPU: which instruction sets it has, and its threads.
#ifndef WEFT_BACKEND_CPU_H
#define WEFT_BACKEND_CPU_H

#include <weft/context.h>

#include "src/kernels/kernel.h"

// A bit for every enum weft__isa that this CPU has and the operating system saves the registers of.
uint32_t weft__cpu_isa_mask(void);

// Lowers `mask` to `level` and what lies below it; false if no such level exists.
bool weft__cpu_lower(uint32_t *mask, const char *level);

// The highest level in the mask, by name.
const char *weft__cpu_isa_name(uint32_t mask);

// Number of cores this process may run on.
int32_t weft__cpu_cores(void);

// The default executor: OpenMP.
void weft__cpu_parallel_for(void *user, int32_t count, weft_task_fn *task, void *work);

#endif
