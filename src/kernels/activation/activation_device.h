// SPDX-License-Identifier: MIT
// What the host and the device say to each other about activation functions.
#ifndef WEFT_KERNELS_ACTIVATION_DEVICE_H
#define WEFT_KERNELS_ACTIVATION_DEVICE_H

#include <stdint.h>

struct weft__activation_device_args {
    const void *x, *up; // up may be null
    void *y;
    int64_t x_stride, up_stride, y_stride, dim;
    float cap; // of soft-caps
};

#endif
