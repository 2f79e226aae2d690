// SPDX-License-Identifier: MIT
// Linear on CUDA for many rows of X: which kernels serve, what they need, how they are launched.
// Pure arithmetic; linear_cuda.c asks it beside the kernels for few rows.
#ifndef WEFT_KERNELS_LINEAR_GEMM_CUDA_H
#define WEFT_KERNELS_LINEAR_GEMM_CUDA_H

#include <weft/linear.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/linear/linear_gemm_device.h"

enum {
    WEFT__LINEAR_GEMM_SHAPES = 13,
    WEFT__LINEAR_GEMM_KERNELS =
        7, // that a plan adds at most for packed weights, and for plain ones
    WEFT__LINEAR_GEMM_PLAIN_KERNELS = WEFT__LINEAR_GEMM_SHAPES + 2,
    WEFT__LINEAR_GEMM_MIN_BATCH = 17, // rows of X: passes of 16 read the weights again
    WEFT__LINEAR_GEMM_MIN_EXACT = 5,  // likewise of plain bf16, X in three terms below MIN_BATCH
    WEFT__LINEAR_GEMM_TERMS = 3,
};

// A kernel for results of 128 rows of W by `rows` rows of X.
struct weft__linear_gemm_shape {
    int32_t rows, stages, split;
    int32_t tiles;                            // linear_gemm_wgmma.cu
    int32_t terms, pieces, cluster, resident; // linear_gemm_plain.cu
    int32_t shared_bytes;
    int32_t kernel; // of the plan's
};

struct weft__linear_gemm {
    int32_t min_batch; // rows of X from which on this is faster; 0: serves nothing
    int32_t num_sms;
    bool brain;                       // 16-bit numbers are bf16, not f16
    bool eights;                      // columns of X in the order of tiles with eights
    bool plain;                       // weights are numbers in rows, X is numbers, too
    int32_t x_kernel, x_terms_kernel; // of the plan's
    bool wgmma;
    int32_t num_shapes;
    struct weft__linear_gemm_shape shapes[WEFT__LINEAR_GEMM_SHAPES];
};

// What the kernel reads X from: rounded rows, or numbers of a dtype.
enum { WEFT__LINEAR_GEMM_ROUNDED = 0 };

// The parts of a format that are to be served.
struct weft__linear_gemm_wish {
    weft_dtype format;
    int32_t x_dtype, y_dtype, scale_dtype;
    int32_t block_bytes; // in tiles
    int32_t few;         // rows of X that other kernels serve as well as these
};

// Adds kernels for packed weights; false (and min_batch 0) if other kernels must serve.
bool weft__linear_gemm_plan(const weft_linear_desc *desc, const struct weft__linear_gemm_wish *wish,
                            const struct weft__cuda_limits *limits,
                            struct weft__cuda_choice *choice, struct weft__linear_gemm *gemm);

// May kernels for warpgroups read tiles of the format, or its plain rows?
bool weft__linear_gemm_serves(const weft_linear_desc *desc, weft_dtype format);

// Bytes of a run's workspace, 256-byte aligned.
static inline int64_t weft__linear_gemm_workspace(int64_t max_batch, int64_t cols)
{
    const int64_t few =
        max_batch < WEFT__LINEAR_GEMM_MIN_BATCH ? max_batch : WEFT__LINEAR_GEMM_MIN_BATCH - 1;
    const int64_t terms = weft__linear_gemm_x_bytes(few, cols, WEFT__LINEAR_GEMM_TERMS);
    const int64_t one = weft__linear_gemm_x_bytes(max_batch, cols, 1);
    return (one > terms ? one : terms) + (max_batch + 63) / 64 * 256;
}

struct weft__linear_gemm_call {
    const void *weight;          // packed; or plain, 16-byte aligned, rows too
    int64_t weight_stride_bytes; // of plain rows
    const void *x;               // as the plan was told
    int64_t x_stride;
    bool
        x_ready; // the workspace holds this X already, from a call with a plan of the same `brain`, `eights` and `plain`
    const float *norm_weight; // of numbers; rounded rows have it in them
    float norm_weight_plus, norm_eps;
    bool norm; // results are multiplied by 1/rms of the row of X
    float alpha;
    const float *bias;    // or NULL
    const void *residual; // or NULL
    int64_t residual_stride;
    void *y;
    int64_t y_stride;
    int32_t batch, rows, cols;
    void *workspace;
};

// The launches of one part, at most two; returns how many.
int32_t weft__linear_gemm_steps(const struct weft__linear_gemm *gemm,
                                const struct weft__linear_gemm_call *call,
                                struct weft__cuda_step *steps);

#endif
