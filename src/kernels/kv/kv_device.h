// SPDX-License-Identifier: MIT
// What the host and the device say to each other about appending to a KV cache.
#ifndef WEFT_KERNELS_KV_DEVICE_H
#define WEFT_KERNELS_KV_DEVICE_H

#include <stdint.h>

// A pool of keys or of values; strides in elements.
struct weft__kv_device_plane {
    void *data;
    int64_t page_stride, head_stride, token_stride;
};

struct weft__kv_device_args {
    struct weft__kv_device_plane k_pool, v_pool;
    const void *k, *v; // v null: values are left alone
    void *q;           // or null
    int64_t k_token_stride, v_token_stride, q_token_stride;
    const int32_t *slots, *positions;
    const double *turns; // per position, of every pair; read with ROTATE
    float factor;
    int32_t rotary_dim, head_dim, page_size, num_kv_heads;
};

// Lengths, positions and slots of a batch, one token further: sequences of one query that have not reached
// their capacity.
struct weft__kv_advance_args {
    const int32_t *cu_q_lens; // [num_seqs + 1]
    int32_t *kv_lens;         // [num_seqs]
    const int32_t *capacities, *page_starts, *pages;
    int32_t *positions, *slots; // by token
    int32_t num_seqs, page_size, ring_len;
};

#endif
