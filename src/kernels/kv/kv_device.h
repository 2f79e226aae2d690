// SPDX-License-Identifier: MIT
// What the host and the device say to each other about appending to a KV cache.
#ifndef WEFT_KERNELS_KV_DEVICE_H
#define WEFT_KERNELS_KV_DEVICE_H

#include <stdint.h>

#ifdef __CUDACC__
#define WEFT__BOTH static __device__ __forceinline__
#else
#define WEFT__BOTH static inline
#endif

// Pages that `keys` keys of a sequence fill; a ring of ring_len keys (0: none) has no more than its own.
WEFT__BOTH int32_t weft__kv_pages(int32_t keys, int32_t page_size, int32_t ring_len)
{
    int32_t kept = ring_len && keys > ring_len ? ring_len : keys;
    return kept / page_size + (kept % page_size != 0);
}

// Where key t of a sequence lies: page * page_size + slot in it.
WEFT__BOTH int32_t weft__kv_slot(const int32_t *pages, int32_t page_size, int32_t ring_len,
                                 int32_t t)
{
    int32_t place = ring_len ? t % ring_len : t;
    return pages[place / page_size] * page_size + place % page_size;
}

// A pool of keys or of values; strides in elements.
struct weft__kv_device_plane {
    void *data;
    int64_t page_stride, head_stride, token_stride;
    // Of caches of any format:
    int64_t inner_stride;
    float *scales;
    int64_t scale_page_stride, scale_head_stride, scale_token_stride;
};

struct weft__kv_device_args {
    struct weft__kv_device_plane k_pool, v_pool;
    const void *k, *v; // v null: values are left alone
    void *q;           // or null
    void *q_out;       // as q where queries are turned in place
    int64_t k_token_stride, v_token_stride, q_token_stride, q_out_token_stride;
    const int32_t *slots, *positions;
    const double *turns; // per position, of every pair; read with ROTATE
    float factor;
    int32_t rotary_dim, head_dim, page_size, num_kv_heads;
    int32_t growth_length; // GROWS: queries are multiplied as weft/kv.h says
    float growth;
};

// Lengths, positions and slots of a batch, one token further: sequences of one query that have not reached
// their capacity.
struct weft__kv_advance_args {
    const int32_t *cu_q_lens; // [num_seqs + 1]
    int32_t *kv_lens;         // [num_seqs]
    const int32_t *capacities, *page_starts, *pages;
    int32_t *positions, *slots; // by token
    uint64_t *step;             // a number that other lengths and pages have not had
    int32_t num_seqs, page_size, ring_len;
};

// A batch set from arrays of the device; what they are stands in weft/batch.h. NULL: none were given.
struct weft__kv_set_args {
    const int32_t *cu_q_lens, *kv_lens, *kv_capacities, *seq_rows, *given_positions, *given_slots;
    const int32_t *page_lists;  // page_table, or page_indices
    const int32_t *list_starts; // of page_indices, else NULL
    int64_t page_table_stride;
    // the batch's own
    int32_t *own_cu_q_lens, *own_kv_lens, *capacities, *page_starts, *pages, *positions, *slots;
    uint64_t *step;
    int32_t num_seqs, num_tokens, page_size, ring_len, max_kv_len, max_pages;
};

#endif
