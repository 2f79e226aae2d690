// SPDX-License-Identifier: MIT
// Linear on CUDA for some rows of X (9 to 64): how linear_gemm_slice.cu fills a GPU. Pure arithmetic.
#ifndef WEFT_KERNELS_LINEAR_SLICE_CUDA_H
#define WEFT_KERNELS_LINEAR_SLICE_CUDA_H

#include <weft/linear.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/linear/linear_gemm_cuda.h"

enum {
    WEFT__LINEAR_SLICE_SHAPES = 3, // that a plan adds at most
    WEFT__LINEAR_SLICE_MOST = 16,  // slices of the columns
    WEFT__LINEAR_SLICE_MIN_BATCH = 9,
};

// Units of a matrix of `rows` rows.
static inline int64_t weft__linear_slice_units(int64_t rows, int32_t unit)
{
    return (rows + unit - 1) / unit;
}

struct weft__linear_slice_shape {
    int32_t least, rows; // of X
    int32_t stages;      // of a warp's ring
    int32_t slices;      // of the columns
    int32_t slice_tiles; // 256 columns each
    int32_t unit;        // rows of W that somebody takes at a time
    int32_t warps;       // of a block
    int32_t team;        // warps of a team (linear_gemm_team.cu), or 0 (linear_gemm_slice.cu)
    bool pair;           // clusters of two blocks of a slice, which make X for each other
    int32_t shared_bytes;
    int32_t kernel; // of the plan's
};

// Blocks of a slice, at most.
static inline int32_t weft__linear_slice_blocks(int32_t num_sms, int32_t slices, bool pair)
{
    return pair ? num_sms / slices / 2 * 2 : num_sms / slices;
}

// The kernels of a set for some rows of X.
struct weft__linear_slices {
    int32_t count;
    struct weft__linear_slice_shape shapes[WEFT__LINEAR_SLICE_SHAPES]; // of rising rows
};

// What a plan asks for: the parts of a format.
struct weft__linear_slice_wish {
    struct weft__linear_gemm_wish matrix;
    int64_t units;      // of 64 rows of W, of all parts
    int64_t team_units; // of 32
    int32_t
        few_columns; // most rows of X of a pass of kernels for few whose blocks have X to themselves
    int32_t sent_columns; // likewise whose blocks have a part of the columns (linear_few_sent.cu)
    bool follows;         // gate and rounding are left to another launch
};

// Adds kernels; they serve nothing where the device or the format is not theirs.
void weft__linear_slices_plan(const weft_linear_desc *desc,
                              const struct weft__linear_slice_wish *wish,
                              const struct weft__cuda_limits *limits,
                              struct weft__cuda_choice *choice, struct weft__linear_slices *slices);

// The shape for a run of `batch` rows of X; NULL: other kernels serve it.
static inline const struct weft__linear_slice_shape *
weft__linear_slice_of(const struct weft__linear_slices *slices, int32_t batch)
{
    if (batch < WEFT__LINEAR_SLICE_MIN_BATCH)
        return NULL;
    for (int32_t i = 0; i < slices->count; i++)
        if (batch <= slices->shapes[i].rows)
            return batch >= slices->shapes[i].least ? &slices->shapes[i] : NULL;
    return NULL;
}

// Sums that may be left in the workspace for a row of W: the most of slices times rows of X; 0: none.
static inline int64_t weft__linear_slice_sums(const struct weft__linear_slices *slices,
                                              int32_t max_batch)
{
    int64_t most = 0;
    for (int32_t i = 0; i < slices->count; i++) {
        const struct weft__linear_slice_shape *s = &slices->shapes[i];
        const int64_t sums = (int64_t)s->slices * (max_batch < s->rows ? max_batch : s->rows);
        most = s->slices > 1 && sums > most ? sums : most;
    }
    return most;
}

#endif
