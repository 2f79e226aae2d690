// SPDX-License-Identifier: MIT
// What the host and the device say to each other about embedding.
#ifndef WEFT_KERNELS_EMBEDDING_DEVICE_H
#define WEFT_KERNELS_EMBEDDING_DEVICE_H

#include <stdint.h>

struct weft__embedding_device_args {
    const void *table;
    const int32_t *ids;
    void *y;
    const void *residual; // NULL: none
    int64_t table_stride_bytes, y_stride;
    int64_t rows, row_blocks;
    const void *scales, *biases; // per scale_rows by scale_cols; NULL: 1, 0
    int64_t scale_stride, scale_rows, scale_cols;
    float scale;
};

#endif
