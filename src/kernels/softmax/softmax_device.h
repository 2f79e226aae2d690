// SPDX-License-Identifier: MIT
// What the host and the device say to each other about softmax.
#ifndef WEFT_KERNELS_SOFTMAX_DEVICE_H
#define WEFT_KERNELS_SOFTMAX_DEVICE_H

#include <stdint.h>

struct weft__softmax_device_args {
    void *x;
    int64_t x_stride, dim;
    float scale;
};

#endif
