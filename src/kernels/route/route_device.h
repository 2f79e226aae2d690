// SPDX-License-Identifier: MIT
// What the host and the device say to each other about routing.
#ifndef WEFT_KERNELS_ROUTE_DEVICE_H
#define WEFT_KERNELS_ROUTE_DEVICE_H

#include <stdint.h>

struct weft__route_device_args {
    const void *logits; // [rows][experts], logits_stride apart
    int64_t logits_stride;
    const float *bias; // [experts] or null
    int32_t *ids;      // [rows][top_k]
    float *weights;    // [rows][top_k]
    int32_t top_k, groups, top_groups, group_best;
    int32_t sigmoid, normalise;
    float scale;
    int32_t *starts, *order; // of a single row, which needs no launch for sorting; or null
};

struct weft__route_sort_args {
    const int32_t *ids; // [choices]
    int32_t *starts;    // [experts + 1]
    int32_t *order;     // [choices]
    int32_t choices;
};

#endif
