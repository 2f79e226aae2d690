// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_SYSTEM_MEMORY_H
#define ENGINE_BASE_SYSTEM_MEMORY_H

#include <stdint.h>

// Bytes that this process may fill without anything being swapped out or ended for it: what Linux calls
// available, and no more than the limits of the control groups that it runs in. What is mapped from
// files does not count. INT64_MAX where the system does not tell.
int64_t system_memory_available(void);

#endif
