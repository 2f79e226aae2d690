// SPDX-License-Identifier: MIT
// The contract of attention kernels: one tile of queries against one chunk of keys.
//
// A tile packs the queries that read the same KV head: `tokens` consecutive queries of one sequence
// times the group_size query heads that share the KV head, so that keys and values are read once for
// all of them.
//
//      row r of a tile:  token first_token + r / group_size,  query head kv_head * group_size + r % group_size
//
// What a row sees is an interval of keys (every mask so far is one): weft__attention_span(). A kernel
// visits the keys of the chunk that at least one row sees and reads nothing else: neither slots nor
// page-table entries past them. It is serial and allocates nothing; `scratch` is its own.
//
// The result of a row is a state (largest, sum, acc): the largest score in units of log2, the sum of
// exp2(score - largest) and the sum of exp2(score - largest) * v. A tile with all the keys of its rows
// finishes them: out = acc / sum. A tile with a chunk of the keys leaves the states in `partial`, and
// weft__attention_merge() puts them together in the order of the chunks.
#ifndef WEFT_KERNELS_ATTENTION_KERNEL_H
#define WEFT_KERNELS_ATTENTION_KERNEL_H

#include <weft/attention.h>

#include "src/kernels/kernel.h"

enum { WEFT__ATTENTION_MAX_HEAD_DIM = 256 };

struct weft__attention_call {
    const float *q;
    int64_t q_token_stride, q_head_stride;
    float *out;
    int64_t out_token_stride, out_head_stride;
    float *lse;        // [tokens][num_q_heads] or NULL
    weft_kv_pool pool; // strides settled
    const int32_t *cu_q_lens, *kv_lens, *page_table;
    int64_t page_table_stride;
    int32_t num_q_heads, group_size, head_dim, page_size;
    weft_mask mask;
    int32_t window; // 0 = none
    float scale, softcap;
};

struct weft__attention_tile {
    int32_t seq, kv_head;
    int32_t first_token, tokens; // of the sequence
    int32_t key0, key1;          // the chunk
    float *partial;              // states of the rows, or NULL: finish them
    void *scratch;               // kernel->scratch_bytes(), aligned to 64 bytes
};

typedef void weft__attention_fn(const struct weft__attention_call *call,
                                const struct weft__attention_tile *tile);

// Bytes of scratch that tiles of up to `rows` rows need.
typedef int64_t weft__attention_scratch_fn(int32_t rows, int32_t head_dim);

struct weft__attention_kernel {
    struct weft__kernel base;
    weft_dtype kv;
    int32_t tile_rows; // rows that a tile should have if there are enough queries
    weft__attention_fn *run;
    weft__attention_scratch_fn *scratch_bytes;
};

// What a plan decides. The workspace:
//
//      [sequence + 1] struct weft__attention_work | [thread] scratch | [slot][row] states
struct weft__attention_launch {
    const struct weft__attention_kernel *kernel;
    weft_kv_layout kv;
    int32_t num_q_heads, group_size;
    weft_mask mask;
    int32_t window;
    float scale, softcap;
    int32_t max_seqs, max_q_tokens, max_kv_len;
    int32_t tile_tokens;  // queries per tile
    int32_t num_splits;   // chunks of every sequence, 0 = chunks of chunk_keys
    int32_t chunk_keys;   // fixed length of a chunk, 0 = from the work of the run
    int32_t split_tokens; // only sequences with at most so many queries are split
    int32_t target_tasks; // what a run without fixed chunks aims at, whatever the threads
    int64_t max_slots;    // partial tiles that the workspace has room for
    int64_t scratch_offset, scratch_bytes;
    int64_t partial_offset, partial_bytes; // bytes of one slot
};

// Half-open interval of keys.
struct weft__attention_span {
    int32_t begin, end;
};

// The keys that query `token` (0..q_len-1) of a sequence sees.
static inline struct weft__attention_span weft__attention_visible(weft_mask mask, int32_t window,
                                                                  int32_t q_len, int32_t kv_len,
                                                                  int32_t token)
{
    int64_t own = (int64_t)kv_len - q_len + token; // position of the query itself
    int64_t end = mask == WEFT_MASK_CAUSAL ? own + 1 : kv_len;
    int64_t begin = window > 0 ? own - window + 1 : 0;
    begin = begin < 0 ? 0 : begin;
    end = end > kv_len ? kv_len : end;
    if (end < begin)
        end = begin = 0;
    return (struct weft__attention_span){(int32_t)begin, (int32_t)end};
}

// The keys that at least one of `tokens` consecutive queries sees: both ends grow with the query.
static inline struct weft__attention_span weft__attention_union(weft_mask mask, int32_t window,
                                                                int32_t q_len, int32_t kv_len,
                                                                int32_t first_token, int32_t tokens)
{
    struct weft__attention_span last =
        weft__attention_visible(mask, window, q_len, kv_len, first_token + tokens - 1);
    for (int32_t i = first_token; i < first_token + tokens; i++) {
        struct weft__attention_span one = weft__attention_visible(mask, window, q_len, kv_len, i);
        if (one.begin < one.end)
            return (struct weft__attention_span){one.begin, last.end};
    }
    return last;
}

// Where key `t` of a sequence lies in its pool, in elements; pages is the sequence's row of the table.
static inline int64_t weft__attention_slot(const struct weft__attention_call *call,
                                           const int32_t *pages, int32_t kv_head, int32_t t)
{
    return pages[t / call->page_size] * call->pool.page_stride + kv_head * call->pool.head_stride +
           t % call->page_size * call->pool.token_stride;
}

// Floats of one row's state: acc[head_dim], largest, sum, padded to whole cache lines.
static inline int64_t weft__attention_state_floats(int32_t head_dim)
{
    return (head_dim + 2 + 15) / 16 * 16;
}

// Delivers the state of row r of a tile.
void weft__attention_finish(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tile, int32_t row, float largest,
                            float sum, const float *acc);

// Finishes a tile whose chunks lie in `chunks` slots of slot_floats each.
void weft__attention_merge(const struct weft__attention_call *call,
                           const struct weft__attention_tile *tile, const float *slots,
                           int64_t slot_floats, int32_t chunks);

#endif
