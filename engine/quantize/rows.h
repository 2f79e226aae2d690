// SPDX-License-Identifier: MIT
#ifndef ENGINE_QUANTIZE_ROWS_H
#define ENGINE_QUANTIZE_ROWS_H

// Rows of a matrix from one format to another, on several threads.

#include <stdbool.h>
#include <stdint.h>

#include "engine/gguf/gguf.h"

typedef struct quantize_rows {
    // The source: rows in `from_dtype` at `from`, or, with from == NULL, made up from a seed.
    const void *from;
    weft_dtype from_dtype, to_dtype;
    gguf_planes planes; // of the source
    uint64_t seed;
    int64_t first, count, cols; // of the rows; the source begins with row 0
    const float *importance;    // [cols] or NULL
    bool search;                // for good scales, else plain rounding
    void *to;                   // `count` packed rows
    double *errors, *squares;   // [count]: sums of squared errors and of squares
} quantize_rows;

// False when memory is short.
bool quantize_rows_run(const quantize_rows *work, int32_t threads);

#endif
