// SPDX-License-Identifier: MIT
// The contract of kv kernels: pool[slots[i]] = convert(rotate(k[i]), v[i]) for the tokens [token0,
// token1). A kernel is serial, allocates nothing, and touches exactly head_dim elements of each head.
#ifndef WEFT_KERNELS_KV_KERNEL_H
#define WEFT_KERNELS_KV_KERNEL_H

#include <weft/kv.h>

#include "src/kernels/kernel.h"
#include "src/kernels/rope/rope_kernel.h"

enum { WEFT__KV_MAX_HEAD_DIM = 256 };

// Converts `count` (a multiple of 8) elements to the pool's format, round to nearest even.
typedef void weft__kv_store_fn(const float *x, void *y, int32_t count);

struct weft__kv_kernel {
    struct weft__kernel base;
    weft_dtype kv;
    weft__kv_store_fn *store;
};

struct weft__kv_call {
    weft_kv_pool pool; // strides settled
    const float *k, *v;
    int64_t k_token_stride, v_token_stride;
    float *q; // or NULL
    int64_t q_token_stride;
    const int32_t *slots, *positions;
};

// What a plan decides.
struct weft__kv_launch {
    const struct weft__kv_kernel *kernel;
    const struct weft__rope_kernel *rope; // NULL: no rotation
    struct weft__rope_frequencies frequencies;
    weft_kv_layout layout;
    int32_t num_q_heads;
    int64_t rows_per_task; // tokens
};

// Appends the tokens [token0, token1).
void weft__kv_append(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                     int64_t token0, int64_t token1);

#endif
