// SPDX-License-Identifier: MIT
// A linear layer on CUDA: what its plan (linear_cuda.c) decides and its runs (linear_steps_cuda.c) do.
//
//      ready    x as f32, normed             LayerNorm, rows too long for shared memory, and where
//                                             weights lie as a file has them
//      round    x to int8                    parts of blocks whose x is not rounded yet
//      product  a launch per set: parts of one format, packed, or plain. Norm, alpha, bias, and what
//               follows (gate, residual, element type, rounding) unless several launches share a gate
//      slice    the same for some rows of X; a gate, rounding and, often, sums of slices are left to finish
//      gemm     the same for many rows of X, a launch per part; a gate and rounding are left to finish
//      blas     likewise by cuBLASLt, plain weights of 16 bits (linear_blas_cuda.h)
//      rows     a launch per part whose weights lie as a file has them
//      finish   what follows, for products that were left as f32 in the workspace
//
// Workspace: | f32 rows of X | rounded rows of X | f32 products, part after part | X for gemm or blas | widened W | the library's |
#ifndef WEFT_KERNELS_LINEAR_CUDA_H
#define WEFT_KERNELS_LINEAR_CUDA_H

#include "src/kernels/linear/linear_blas_cuda.h"
#include "src/kernels/linear/linear_cuda_shape.h"
#include "src/kernels/linear/linear_gemm_cuda.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/linear/linear_pack_cuda.h"
#include "src/kernels/linear/linear_slice_cuda.h"

enum {
    WEFT__LINEAR_MOST_SHAPES = 4,
    WEFT__LINEAR_GROUP_BYTES = 4, // scale and bias of a block of MLX in a tile
    WEFT__LINEAR_MOST_STAGED =
        256 << 20, // bytes of products that the library leaves before they are finished
};

// Function constants of linear_few.cu and linear_numbers.cu.
#define WEFT__LINEAR_CONSTANTS(X)                                                                  \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_BATCH)                                                                                  \
    X(WEFT_EXACT)                                                                                  \
    X(WEFT_EXPERTS)                                                                                \
    X(WEFT_ROUND_X)                                                                                \
    X(WEFT_X_OUTSIDE)                                                                              \
    X(WEFT_ALIGNED)                                                                                \
    X(WEFT_WARPS)                                                                                  \
    X(WEFT_TEAM)                                                                                   \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_SPLIT)                                                                                  \
    X(WEFT_GATE)                                                                                   \
    X(WEFT_LONG_X)                                                                                 \
    X(WEFT_COLS)                                                                                   \
    X(WEFT_ROUND)                                                                                  \
    X(WEFT_PAIR)                                                                                   \
    X(WEFT_TWIN)                                                                                   \
    X(WEFT_APART)                                                                                  \
    X(WEFT_AS_NUMBERS)                                                                             \
    X(WEFT_SPREAD) X(WEFT_X_DTYPE) X(WEFT_Y_DTYPE) X(WEFT_SCALE_DTYPE) X(WEFT_BLOCKS)

// The kernels by name.
extern const struct weft__kernel_table weft__linear_cuda_table;

// Parts of one format: one launch.
struct weft__linear_set {
    int32_t parts[WEFT_LINEAR_MAX_PARTS], num_parts;
    int32_t scale_dtype;
    struct weft__linear_matter matter;
    struct weft__linear_shape shapes[WEFT__LINEAR_MOST_SHAPES]; // of rising columns
    int32_t num_shapes;
    int32_t first_kernel;                      // of the shapes, one behind the other
    struct weft__linear_shape unaligned_shape; // of plain weights that begin anywhere
    int32_t unaligned;                         // its kernel
    struct weft__linear_slices slices;         // for some rows of X
    struct weft__linear_gemm gemm;             // for many
    struct weft__linear_blas blas;             // likewise
    bool named_blas;                           // by its row
};

// Does the set's kernel for one row of X round it itself?
static inline bool weft__linear_rounds_itself(const struct weft__linear_set *set, uint32_t flags)
{
    const int64_t most =
        1536; // longer rows are ready sooner when a launch has rounded them, but for some shapes
    return set->matter.block_elems > 1 && !set->matter.exact &&
           (set->matter.cols <= most || set->shapes[0].rounds_x) &&
           !(flags & WEFT_LINEAR_X_ROUNDED);
}

struct weft__linear_cuda_part {
    bool tiles;   // packed weights are tiles (linear_device.h), others lie as in a file
    bool as_file; // no set has it
    bool exact;
    int32_t rows_kernel; // of weights as a file has them; -1: a set's kernels read them
    int32_t pack_kernel; // -1: none
    int32_t block_elems, block_bytes; // in tiles
    int32_t scale_dtype;              // of what tiles have beside codes (MLX)
    int64_t rows, scale_cols, scale_rows;
    int64_t staged;                // in the workspace, or -1
    bool named_blas;               // by its row
    struct weft__linear_blas blas; // of weights as in a file, for many rows of X
};

struct weft__linear_cuda_launch {
    struct weft__cuda_limits limits;
    struct weft__linear_cuda_part parts[WEFT_LINEAR_MAX_PARTS];
    struct weft__linear_set sets[WEFT_LINEAR_MAX_PARTS];
    int32_t num_parts, num_sets;
    int64_t cols;
    uint32_t flags;
    weft_linear_norm norm;
    weft_linear_gate gate;
    float norm_eps;
    weft_dtype x_dtype, y_dtype;
    bool whole;                   // products do what follows themselves
    bool finishes;                // results may have to be finished by a launch of their own
    bool ready_first;             // every product reads X that has been made ready
    int32_t ready, round, finish; // kernels, -1: not needed
    int64_t ready_offset, rounded_offset, gemm_offset, widened_offset; // in the workspace
    int64_t ready_stride; // columns from row to row: whole tiles
};

static inline bool weft__linear_rounds_y(const weft_linear_desc *desc)
{
    return desc->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT);
}

// Numbers that a set's kernels read: what was made ready is f32.
static inline weft_dtype weft__linear_numbers_dtype(const struct weft__linear_cuda_launch *launch)
{
    return launch->ready_first ? WEFT_F32 : launch->x_dtype;
}

// Products of a set by the library, where no name of another kernel was asked for; false if it does not serve.
bool weft__linear_blas_plan_set(const weft_linear_desc *desc, struct weft__cuda_choice *choice,
                                struct weft__linear_set *set);

// Where everything of a planned launch lies in the workspace, and its bytes; false if these do not fit.
bool weft__linear_cuda_lay_out(const weft_linear_desc *desc,
                               struct weft__linear_cuda_launch *launch, size_t *bytes);

weft__cuda_steps_fn weft__linear_cuda_steps;

// Packing (weft_linear_pack): bytes of a part's packed weights, 0 where they lie as in a file; and the launch for a slab.
int64_t weft__linear_cuda_packed_bytes(const void *launch, int32_t part);
void weft__linear_cuda_pack(const void *launch, int32_t part, const struct weft__linear_slab *slab,
                            struct weft__cuda_step *step);

#endif
