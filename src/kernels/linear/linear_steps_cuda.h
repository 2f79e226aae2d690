// SPDX-License-Identifier: MIT
// A run of a linear layer on CUDA on its way: what its launches share.
#ifndef WEFT_KERNELS_LINEAR_STEPS_CUDA_H
#define WEFT_KERNELS_LINEAR_STEPS_CUDA_H

#include "src/kernels/linear/linear_cuda.h"

struct weft__linear_run {
    const struct weft__linear_cuda_launch *launch;
    const weft_linear_args *args;
    struct weft__cuda_step *steps;
    int32_t count;
    char *workspace;
    const void *numbers, *rounded; // X
    int64_t numbers_stride;
    int32_t norm; // that is left to the products
    float norm_plus;
    // whose X lies in the workspace, one of them or none
    const struct weft__linear_gemm *gemm_x;
    const struct weft__linear_blas *blas_x;
    // what products of the library still want, by part: factors of rows of X, a bias; or NULL
    const float *factors[WEFT_LINEAR_MAX_PARTS], *bias[WEFT_LINEAR_MAX_PARTS];
    int32_t slices
        [WEFT_LINEAR_MAX_PARTS]; // whose sums are still to be added up, of a part; 0: products are whole
};

// Where a part's f32 products go when something is to follow in another launch.
static inline float *weft__linear_staged(const struct weft__linear_run *run, int32_t p)
{
    return (float *)(void *)(run->workspace + run->launch->parts[p].staged);
}

static inline float weft__linear_alpha(const struct weft__linear_run *run, int32_t p)
{
    const float global = run->args->parts[p].global_scale;
    return run->args->alpha * (global != 0 ? global : 1.0f);
}

// linear_finish_cuda.c. What follows products of part p (of both parts of a gate) that lie in f32 at `first`, rows
// `stride` apart; the same of several parts without a gate that lie in the workspace, in one launch.
void weft__linear_add_finish(struct weft__linear_run *run, int32_t p, const void *first,
                             int64_t stride, const void *residual);
void weft__linear_add_finish_of(struct weft__linear_run *run, const int32_t *parts, int32_t count);

// linear_blas_steps_cuda.c. Does the library serve a set, a part whose weights lie as in a file? And its launches; `follows`: what follows comes
// later.
bool weft__linear_is_blas(const struct weft__linear_run *run, const struct weft__linear_set *set,
                          bool follows);
void weft__linear_add_blas(struct weft__linear_run *run, const struct weft__linear_set *set,
                           bool follows);
bool weft__linear_is_widened(const struct weft__linear_run *run, int32_t p, bool follows);
void weft__linear_add_widened(struct weft__linear_run *run, int32_t p, bool follows);

#endif
