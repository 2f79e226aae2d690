// SPDX-License-Identifier: MIT
// What a plan of experts on CUDA keeps for its runs, and what both ask of a descriptor.
#ifndef WEFT_KERNELS_EXPERTS_LAUNCH_CUDA_H
#define WEFT_KERNELS_EXPERTS_LAUNCH_CUDA_H

#include "src/kernels/cuda/launch.h"
#include "src/kernels/experts/experts_device.h"
#include "src/kernels/experts/experts_kernel.h"
#include "src/kernels/linear/linear_experts_cuda.h"

// The first kernels are the parts'.
enum {
    WEFT__EXPERTS_READY_KERNEL = WEFT_EXPERTS_PARTS,
    WEFT__EXPERTS_SUM_KERNEL,
    WEFT__EXPERTS_ROUND_KERNEL,
    WEFT__EXPERTS_ADAPT_KERNEL
};

struct weft__experts_launch {
    weft_experts_desc desc;
    int64_t ready, gate, up, results;                      // in the workspace
    int64_t rounded, inner, tile_results;                  // likewise
    int64_t plain, plain_inner, added[WEFT_EXPERTS_PARTS]; // likewise, with adapters
    int64_t expert_bytes;                                  // of one expert's weights
    bool readies;                                          // x is made f32, and normed
    bool tiles, exact;                                     // may be packed; with x as numbers
    struct weft__linear_experts_product joined, down;      // on packed tiles
    int32_t many
        [WEFT_EXPERTS_PARTS]; // kernels of tiles of many places, of parts as a file has them; or -1
};

static inline bool weft__experts_has_planes(const weft_linear_part *part)
{
    return part->scale_cols > 0;
}

// What the weights of norms are stored less.
static inline float weft__experts_plus_of(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f;
}

static inline int64_t weft__experts_rows_of(const weft_experts_desc *desc, int p)
{
    return p == WEFT_EXPERTS_DOWN ? desc->cols : desc->inner;
}

static inline int64_t weft__experts_cols_of(const weft_experts_desc *desc, int p)
{
    return p == WEFT_EXPERTS_DOWN ? desc->inner : desc->cols;
}

static inline int32_t weft__experts_function_of(const weft_experts_desc *desc)
{
    return desc->clamp_limit != 0 ? WEFT__LINEAR_GATE_CLAMPED : (int32_t)desc->gate;
}

// Without a gate the function is of one product alone: there is no part of up.
static inline bool weft__experts_is_alone(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_EXPERTS_PLAIN;
}

static inline bool weft__experts_lacks(const weft_experts_desc *desc, int p)
{
    return p == WEFT_EXPERTS_UP && weft__experts_is_alone(desc);
}

// The part whose product the function follows.
static inline bool weft__experts_functions(const weft_experts_desc *desc, int p)
{
    return p == (weft__experts_is_alone(desc) ? WEFT_EXPERTS_GATE : WEFT_EXPERTS_UP);
}

static inline bool weft__experts_weighs_input(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_EXPERTS_WEIGH_INPUT;
}

// Are places of a run so many that a tile of them pays? On an H200 tiles lose with 16 for every expert and win by far with 128 (NOTES.md).
static inline bool weft__experts_has_many(const weft_experts_desc *desc, int32_t tokens)
{
    return (int64_t)tokens * desc->top_k >= (int64_t)desc->experts * (WEFT__EXPERTS_TILE * 3 / 8);
}

int32_t weft__experts_cuda_steps(const void *launch, const void *args,
                                 struct weft__cuda_step *steps);

#endif
