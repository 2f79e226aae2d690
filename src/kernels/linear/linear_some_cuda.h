// SPDX-License-Identifier: MIT
// How linear_some.cu fills a GPU: rows of X, columns of a warp, ring, slices of the columns. Pure arithmetic.
#ifndef WEFT_KERNELS_LINEAR_SOME_CUDA_H
#define WEFT_KERNELS_LINEAR_SOME_CUDA_H

#include "src/kernels/linear/linear_cuda_shape.h"

enum {
    WEFT__LINEAR_SOME_MIN_BATCH = 9,
    WEFT__LINEAR_SOME_MAX_BATCH = 32, // several passes side by side, which share W in L2
    WEFT__LINEAR_SOME_SHAPES = 2,
    WEFT__LINEAR_SOME_SLICES = 4,
    WEFT__LINEAR_SOME_WARPS = 16, // that multiply
    WEFT__LINEAR_SOME_DELIVER = 4,
};

struct weft__linear_some_shape {
    int32_t rows;   // of X
    int32_t pairs;  // of 64 columns that a warp has
    int32_t stages; // of a warp's ring
    int32_t slices; // of the columns: sums of each are left in the workspace
    int32_t shared_bytes;
    int32_t kernel; // of the plan's
};

// The kernels of a set for batches between few and many.
struct weft__linear_some {
    int32_t count;
    struct weft__linear_some_shape shapes[WEFT__LINEAR_SOME_SHAPES]; // of rising rows
};

// Bits of a code in a tile.
static inline int32_t weft__linear_code_bits(weft_dtype format)
{
    static const int8_t of_mlx[] = {2, 3, 4, 5, 6, 8};
    switch (format) {
    case WEFT_Q2_K: return 2;
    case WEFT_Q3_K: return 3;
    case WEFT_Q5_0:
    case WEFT_Q5_1:
    case WEFT_Q5_K: return 5;
    case WEFT_Q6_K: return 6;
    case WEFT_Q8_0: return 8;
    default: return format >= WEFT_MLX_Q2_G32 ? of_mlx[(format - WEFT_MLX_Q2_G32) / 3] : 4;
    }
}

// The shape for passes of `rows` rows of X; false if none fits.
static inline bool weft__linear_some_choose(const struct weft__linear_matter *m, weft_dtype format,
                                            int32_t rows, const struct weft__cuda_limits *limits,
                                            struct weft__linear_some_shape *shape)
{
    const int64_t all = (m->cols + 63) / 64;
    for (int32_t slices = 1; slices <= WEFT__LINEAR_SOME_SLICES; slices++)
        for (int32_t pairs = 1; pairs <= 4; pairs *= 2) {
            const int64_t units = (all + pairs - 1) / pairs;
            if ((units + slices - 1) / slices > WEFT__LINEAR_SOME_WARPS)
                continue;
            const int32_t slot =
                weft__linear_slot_bytes(m) - (4 - pairs) * 128 * weft__linear_code_bits(format);
            const int32_t around = 2 * WEFT__LINEAR_SOME_WARPS * rows * 64 +
                                   rows * (4 + 36 * WEFT__LINEAR_SOME_WARPS) + 64;
            const int32_t left = limits->shared_per_block - around;
            int32_t stages = left / (WEFT__LINEAR_SOME_WARPS * (slot + 8));
            stages = stages >= 8 ? 8 : stages >= 4 ? 4 : 2; // MLX of 8 bits takes 147 KB with 2
            *shape = (struct weft__linear_some_shape){
                .rows = rows,
                .pairs = pairs,
                .stages = stages,
                .slices = slices,
                .shared_bytes = around + stages * WEFT__LINEAR_SOME_WARPS * (slot + 8)};
            if (shape->shared_bytes <= limits->shared_per_block)
                return true;
        }
    return false;
}

// The shape for a run of `batch` rows of X; NULL: other kernels serve it.
static inline const struct weft__linear_some_shape *
weft__linear_some_of(const struct weft__linear_some *some, int32_t batch)
{
    if (some->count == 0 || batch < WEFT__LINEAR_SOME_MIN_BATCH ||
        batch > WEFT__LINEAR_SOME_MAX_BATCH)
        return NULL;
    int32_t which = 0;
    while (which + 1 < some->count && batch > some->shapes[which].rows)
        which++;
    return &some->shapes[which];
}

// Passes over X and slices of the columns run side by side: blocks of one of them, for `groups` groups of rows.
static inline uint32_t weft__linear_some_blocks(const struct weft__linear_some_shape *s,
                                                const struct weft__cuda_limits *limits,
                                                int32_t batch, int64_t groups)
{
    const int64_t beside = (int64_t)s->slices * ((batch + s->rows - 1) / s->rows);
    const int64_t most = limits->num_sms / beside > 0 ? limits->num_sms / beside : 1;
    return (uint32_t)(groups < most ? groups : most);
}

#endif
