// SPDX-License-Identifier: MIT
// What the host and the device say to each other about normalisation.
#ifndef WEFT_KERNELS_NORM_DEVICE_H
#define WEFT_KERNELS_NORM_DEVICE_H

#include <stdint.h>

struct weft__norm_device_args {
    const void *x;
    void *y;
    const void *weight, *bias, *residual; // or null
    int64_t x_stride, y_stride, residual_stride, dim;
    float eps, weight_offset;
};

#endif
