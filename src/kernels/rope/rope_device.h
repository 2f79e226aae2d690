// SPDX-License-Identifier: MIT
// What the host and the device say to each other about rotary position embedding.
#ifndef WEFT_KERNELS_ROPE_DEVICE_H
#define WEFT_KERNELS_ROPE_DEVICE_H

#include <stdint.h>

struct weft__rope_device_args {
    void *x;
    int64_t token_stride;
    const int32_t *positions;
    const double *turns; // per position, of every pair
    float factor;
    int32_t head_dim, rotary_dim;
};

#endif
