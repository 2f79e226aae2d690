// SPDX-License-Identifier: MIT
// Linear on CUDA for many rows of X and plain weights of 16 bits, by cuBLASLt: a pass makes X 16-bit numbers in rows, the library
// multiplies, and what it cannot add is added by weft_linear_finish.
//
//      X as it is    16-bit numbers of the weights' format, no norm: no pass
//      bf16          a norm is multiplied into X; Y and a residual are the library's own
//      f16           rows of X are multiplied by powers of two (linear_gemm_device.h), which finish takes back
//
// Weights of fp8 and int8, which lie as in a file, become f16 on the way: some rows at a time, which stay in
// the cache, a launch makes f16 of codes, scales and biases, and the library multiplies them.
//
// Runs whose addresses or strides are no multiples of 16 bytes go through kernels of our own. Sums are f32, one behind the
// other along a row: rows of more than WEFT__LINEAR_BLAS_COLS are left to kernels that begin new ones.
#ifndef WEFT_KERNELS_LINEAR_BLAS_CUDA_H
#define WEFT_KERNELS_LINEAR_BLAS_CUDA_H

#include <weft/linear.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/linear/linear_device.h"

enum { WEFT__LINEAR_BLAS_COLS = 1 << 16 };

// The parts of a set, or one whose weights lie as in a file.
struct weft__linear_blas {
    int32_t least_batch; // rows of X from which on the library serves; 0: it does not
    bool brain;          // bf16, not f16
    bool x_as_is;        // X may be read as the caller has it
    int32_t x_kernel;
    int32_t first_product; // of the plan's; one a part, in their order
    weft_dtype result[WEFT_LINEAR_MAX_PARTS];
    struct weft__cuda_offer offers[WEFT_LINEAR_MAX_PARTS];
    int32_t widen_kernel, slab_rows; // of weights as in a file: rows of W at a time
};

struct weft__linear_blas_wish {
    weft_dtype format;
    int32_t x_dtype; // of the numbers that are read
    int32_t slabs;   // that weights as in a file may be cut into; 0: they are numbers of 16 bits
    bool named;      // asked for by the name of its row: for any number of rows of X
    bool follows;    // products are left in f32 for what follows them
    const int32_t *parts;
    int32_t num_parts;
};

// Says what the library is to make, and wants the pass over X; false (and least_batch 0) if kernels of our own must serve.
bool weft__linear_blas_plan(const weft_linear_desc *desc, const struct weft__linear_blas_wish *wish,
                            struct weft__cuda_choice *choice, struct weft__linear_blas *blas);

// Blocks of linear_widen.cu along a row: warps, each with so many format blocks.
static inline uint32_t weft__linear_widen_blocks(int32_t cols, int32_t elems)
{
    const int32_t a_warp = elems == 1 ? 32 * 8 : elems >= 256 ? 8 : 32;
    const int32_t a_block = a_warp * WEFT__LINEAR_WIDEN_WARPS(elems);
    return (uint32_t)((cols / elems + a_block - 1) / a_block);
}

// Launches that a slab takes, and bytes that its weights become.
enum { WEFT__LINEAR_SLAB_STEPS = 2 };
static inline int64_t weft__linear_blas_slab_bytes(const struct weft__linear_blas *blas,
                                                   int64_t cols)
{
    return blas->slab_rows * cols * 2;
}

// Do results of a part need room of their own, whatever a run adds?
static inline bool weft__linear_blas_stages(const struct weft__linear_blas *blas, int32_t part,
                                            weft_dtype y_dtype)
{
    return blas->least_batch && ((!blas->brain && !blas->x_as_is) || blas->result[part] != y_dtype);
}

// Bytes of a run's workspace: | factors of rows | X |
static inline int64_t weft__linear_blas_x_stride(int64_t cols)
{
    return (cols + 63) / 64 * 64;
}
static inline int64_t weft__linear_blas_workspace(int64_t max_batch, int64_t cols)
{
    return (max_batch + 63) / 64 * 256 + max_batch * weft__linear_blas_x_stride(cols) * 2;
}

#endif
