// SPDX-License-Identifier: MIT
// The contract of kv kernels: pool[slots[i]] = convert(rotate(k[i]), v[i]) for the tokens [token0,
// token1). A kernel is serial, allocates nothing, and touches exactly the elements of each head.
#ifndef WEFT_KERNELS_KV_KERNEL_H
#define WEFT_KERNELS_KV_KERNEL_H

#include <weft/kv.h>

#include "src/kernels/kernel.h"
#include "src/kernels/rope/rope_kernel.h"

enum { WEFT__KV_MAX_DIM = 1024 };

// Converts `count` elements (a multiple of 8, or of the format's block) to `dtype`, round to nearest even.
// Kernels of one format take no other.
typedef void weft__kv_store_fn(const float *x, void *y, int32_t count, weft_dtype dtype);

struct weft__kv_kernel {
    struct weft__kernel base;
    weft_dtype kv; // 0: any
    weft__kv_store_fn *store;
};

// Keys or values: where they go, as what. Strides are settled.
struct weft__kv_target {
    weft__kv_store_fn *store;
    char *data;
    weft_dtype dtype;
    int32_t dim, inner; // inner = dim: all elements of a head lie together
    int64_t page_stride, head_stride, token_stride, inner_stride;
    weft_kv_scaling scaling;
    float *scales;
    int64_t scale_page_stride, scale_head_stride, scale_token_stride;
};

struct weft__kv_call {
    struct weft__kv_target targets[2]; // of keys, of values
    const void *k, *v;                 // of x_dtype; v NULL: values are left alone
    int64_t k_token_stride, v_token_stride;
    void *q; // or NULL
    int64_t q_token_stride;
    void *q_out; // or NULL: q is turned in place
    int64_t q_out_token_stride;
    const int32_t *slots, *positions;
    const float *cosines, *sines; // [token][rotary_dim / 2] of positions; NULL: to be computed
};

// What a plan decides.
struct weft__kv_launch {
    const struct weft__kv_kernel *kernel;   // of keys
    const struct weft__kv_kernel *v_kernel; // of values
    const struct weft__rope_kernel *rope;   // NULL: no rotation
    struct weft__rope_frequencies frequencies;
    weft_kv_layout layout;
    int32_t num_q_heads;
    weft_dtype x_dtype; // of k, v and q
    weft_dtype q_out_dtype;
    int32_t q_growth_length; // 0: queries do not grow
    float q_growth;
    int64_t rows_per_task; // tokens
};

// The part of the check that is about formats and layouts (kv_any_check.c).
struct check_case;
void weft__kv_any_check(struct check_case *c);

// Appends the tokens [token0, token1).
void weft__kv_append(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                     int64_t token0, int64_t token1);

#endif
