// SPDX-License-Identifier: MIT
// What the host and the device say to each other about merging attention states; strides in elements.
#ifndef WEFT_KERNELS_MERGE_DEVICE_H
#define WEFT_KERNELS_MERGE_DEVICE_H

#include <stdint.h>

struct weft__merge_device_args {
    const void *x;
    const float *lse;
    void *out;
    float *out_lse; // or NULL
    int64_t x_state_stride, x_token_stride, x_head_stride, lse_state_stride;
    int64_t out_token_stride, out_head_stride;
    int64_t rows; // tokens times heads
    int32_t num_heads, num_states;
};

#endif
