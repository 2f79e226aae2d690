// SPDX-License-Identifier: MIT
// What the host and the device say to each other about experts. Choices are sorted by expert (weft/route.h): place
// i of that order is choice order[i], of token order[i] / top_k.
#ifndef WEFT_KERNELS_EXPERTS_DEVICE_H
#define WEFT_KERNELS_EXPERTS_DEVICE_H

#include <stdint.h>

#include "src/kernels/linear/linear_device.h"

enum {
    WEFT__EXPERTS_COLUMNS = 4,         // places that share a pass over an expert's weights
    WEFT__EXPERTS_TILE = 64,           // places, and rows of W, of a tile
    WEFT__EXPERTS_TILE_THREADS = 256,  // of its block
    WEFT__EXPERTS_ADAPT_RANK = 4096,   // most rows between the matrices of an adapter
    WEFT__EXPERTS_ADAPT_THREADS = 512, // of a block that does what adapters add
    WEFT__EXPERTS_ADAPTERS = 64,       // of a run
};

// Warps of a block of products of weights as a file has them, whose decoded numbers fit 48 KB.
#define WEFT__EXPERTS_WARPS(elems) ((elems) == 128 ? 2 : 4)

// One matrix of all experts.
struct weft__experts_product_args {
    const void *weight, *scales, *biases; // of expert 0; the latter two or NULL: 1, 0
    int64_t weight_stride_bytes, expert_stride_bytes;
    int64_t scale_stride, expert_scale_stride; // elements
    int32_t scale_cols, scale_rows;            // that share a scale
    const float *bias;                         // [experts][rows], or NULL
    const float *x;
    int64_t x_stride;
    const float *gate; // [places][rows]: y becomes function(gate, y); NULL: y alone
    float *y;          // [rows of Y][rows]
    int32_t rows, cols;
    struct weft__linear_experts to;
};

// As weft_experts_adapter has them; dtypes are f32, f16 or bf16.
struct weft__experts_adapter {
    const void *a, *b;
    float scale;
    int32_t rank, a_dtype, b_dtype;
};

// What the adapters of a part add: y[rows of Y][rows].
struct weft__experts_adapt_args {
    const float *x;
    int64_t x_stride;
    float *y;
    int32_t rows, cols, count, reserved;
    struct weft__linear_experts to;
    struct weft__experts_adapter adapters[WEFT__EXPERTS_ADAPTERS];
};

struct weft__experts_sum_args {
    const float *results; // [choices][cols]
    const float *weights; // [choices]
    const void *residual;
    void *y;
    int64_t residual_stride, y_stride;
    const int32_t *starts;
    uint64_t *bytes_read; // or NULL
    uint64_t expert_bytes;
    void *rounded;            // leaves as int8 for the next layer too; or NULL
    const float *next_weight; // of the norm that it begins with; or NULL = 1
    int32_t experts, cols;
    float alpha, next_weight_plus;
};

#endif
