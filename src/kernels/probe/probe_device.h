// SPDX-License-Identifier: MIT
// What the host and the device say to each other about probes.
#ifndef WEFT_KERNELS_PROBE_DEVICE_H
#define WEFT_KERNELS_PROBE_DEVICE_H

#include <stdint.h>

struct weft__probe_device_args {
    const void *memory;
    int64_t bytes;
    int64_t steps;
    uint64_t *value; // is added to
    float one;       // what the compiler cannot know
    int32_t units;   // four times 1
};

enum { WEFT__PROBE_CHAINS = 8 };

#endif
