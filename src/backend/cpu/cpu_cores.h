// SPDX-License-Identifier: MIT
// Which cores a process should work on unless it is told.
#ifndef WEFT_BACKEND_CPU_CORES_H
#define WEFT_BACKEND_CPU_CORES_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE: cpu_set_t is the GNU C library's"
#endif
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct weft__cpu_cores {
    int32_t count;   // threads that the cores are good for: no more than their number
    cpu_set_t cores; // of `allowed`
    bool restricted; // not all of `allowed`: threads should be kept on `cores`
};

// Of the allowed cores: those of the NUMA node that has most of them, without the slow ones of a hybrid
// CPU. `count` is lowered to what the cgroup's quota (v1 or v2) pays for. Files are read below `root`,
// "" for the machine's own; those that are not there say nothing.
void weft__cpu_choose_cores(const char *root, const cpu_set_t *allowed,
                            struct weft__cpu_cores *out);

// The same for this process.
void weft__cpu_own_cores(struct weft__cpu_cores *out);

#endif
