// SPDX-License-Identifier: MIT
// A matrix of every expert on packed tiles (linear_device.h), and the rows of X that go to each: linear_few.cu with
// WEFT_EXPERTS. A launch has blocks for every share of places, more than there will be.
#ifndef WEFT_KERNELS_LINEAR_EXPERTS_CUDA_H
#define WEFT_KERNELS_LINEAR_EXPERTS_CUDA_H

#include "src/kernels/linear/linear_cuda_shape.h"
#include "src/kernels/linear/linear_pack_cuda.h"

enum { WEFT__LINEAR_GATE_CLAMPED = 4 }; // beside those of weft_linear_gate

struct weft__linear_experts_wish {
    weft_dtype format, x_dtype; // x_dtype: of numbers, where `exact`
    int64_t rows,
        cols; // of an expert's matrix; rows a multiple of 16, of 32 if results leave rounded
    int32_t experts, top_k, max_tokens;
    int32_t gate;   // 0, or two matrices' results are joined: a weft_linear_gate or the one above
    bool exact;     // X is numbers; else rounded
    bool rounds;    // results leave rounded
    bool weighs;    // rows of X are multiplied by their choices' weights
    bool adapts;    // something is added to the products (linear_device.h)
    bool one_shape; // results do not depend on how many rows there are
};

struct weft__linear_experts_product {
    struct weft__cuda_limits limits;
    struct weft__linear_shape shapes[3]; // of rising columns
    int32_t num_shapes, first_kernel, pack_kernel;
    int32_t experts, top_k;
    int32_t groups; // of 16 rows
    bool rounds;
};

// Is there a kernel for tiles of the format?
bool weft__linear_has_tiles(weft_dtype format, bool exact);

// Asks for the kernels; false if the device has not the shared memory.
bool weft__linear_experts_plan(const struct weft__linear_experts_wish *wish,
                               const struct weft__cuda_limits *limits,
                               struct weft__cuda_choice *choice,
                               struct weft__linear_experts_product *out);

// The launch for `tokens` tokens; the rest of args is the caller's.
void weft__linear_experts_step(const struct weft__linear_experts_product *product, int32_t tokens,
                               struct weft__linear_device_args *args, struct weft__cuda_step *step);

#endif
