// SPDX-License-Identifier: MIT
// The contract of attention kernels: tiles of queries against chunks of keys, one after the other.
//
// A tile packs queries that read the same KV head: `tokens` consecutive queries of one sequence times
// tile_heads of the query heads that share the KV head (all of them, if nobody wants it otherwise), so that
// keys and values are read once for all of them.
//
//      row r of a tile:  token first_token + r / tile_heads,  query head first_head + r % tile_heads
//
// What a row sees is an interval of keys, weft__attention_visible(), and for trees and bit masks a part
// of it, weft__attention_word(). A kernel visits the keys of the chunk that at least one row sees and
// reads nothing else: neither slots nor page-table entries past them. It is serial and allocates
// nothing; `scratch` is its own.
//
// The result of a row is a state (largest, sum, acc): the largest score in units of log2, the sum of
// exp2(score - largest) and the sum of exp2(score - largest) * v. A tile with all the keys of its rows
// finishes them: out = acc / sum. A tile with a chunk of the keys leaves the states in `partial`, and
// weft__attention_merge() puts them together in the order of the chunks.
#ifndef WEFT_KERNELS_ATTENTION_KERNEL_H
#define WEFT_KERNELS_ATTENTION_KERNEL_H

#include <weft/attention.h>

#include "src/kernels/kernel.h"

enum { WEFT__ATTENTION_MAX_DIM = 1024, WEFT__ATTENTION_BLOCK = 64 };

// The members of a descriptor that say what a query sees.
struct weft__attention_mask {
    weft_mask kind;
    int32_t window, window_right, local_chunk; // 0 = none
    bool soft; // keys that are not seen count, with mask_value added
    // Blocks of keys near the query's own and every so many; 0 = all.
    int32_t sparse_block, sparse_local, sparse_stride, sparse_head_step, sparse_rank;
    int32_t sparse_queries, sparse_keys; // lists of blocks; 0 = none
    bool sparse_heads;                   // each KV head has its own
};

// The lengths of a run. A sequence's keys before its start are padding.
struct weft__attention_lengths {
    int32_t num_seqs;
    const int32_t *cu_q_lens, *kv_lens;
    const int32_t *kv_starts; // or NULL
};

// Where keys or values are, and what their elements mean. Strides are settled.
struct weft__attention_plane {
    const char *data;
    weft_dtype dtype;
    int32_t dim, inner; // inner = dim: all elements of a head lie together
    int64_t page_stride, head_stride, token_stride, inner_stride;
    const float *scales; // NULL: 1
    int64_t scale_seq_stride, scale_page_stride, scale_head_stride, scale_token_stride;
};

struct weft__attention_call {
    const void *q;
    weft_dtype q_dtype, out_dtype;
    int64_t q_token_stride, q_head_stride;
    void *out;
    int64_t out_token_stride, out_head_stride;
    float *lse; // [tokens][num_q_heads] or NULL
    struct weft__attention_plane k, v;
    struct weft__attention_lengths lengths;
    const int32_t *pages; // of all sequences
    // Of a sequence's pages, or NULL: page_stride entries from one to the next.
    const int32_t *page_starts;
    int64_t page_table_stride;
    const int32_t *seq_rows; // or NULL
    int32_t num_q_heads, group_size, page_size, ring_len;
    int32_t tile_heads; // of the group_size query heads of a KV head, a divisor
    int32_t block_keys; // of the SIMD kernels, at most 64
    bool ahead;         // ask for keys before they are needed
    bool generic;       // WEFT_ATTENTION_GENERIC
    // Eight rows may score by attention_parts.h: shuffles cost nothing beside products. Where they do, as on machines with AMX,
    // few rows take short turns (attention_few.h).
    bool by_parts;
    bool precise;     // WEFT_ATTENTION_PRECISE, of the SIMD kernels
    uint64_t *counts; // or NULL
    struct weft__attention_mask mask;
    float scale, softcap, mask_value;
    const float *sinks, *alibi_slopes;          // or NULL
    const int32_t *tree_parents, *mask_columns; // or NULL
    const uint32_t *mask_bits;
    int64_t mask_stride;
    const int32_t *sparse_blocks, *sparse_starts, *sparse_first; // or NULL
    const float *q_scales;                                       // or NULL: 1
    int64_t q_scale_token_stride, q_scale_head_stride;
};

// Initialisers of what the public arguments, a call and a launch on a device (attention_device.h) have under one name.
#define WEFT__ATTENTION_OPERANDS(args)                                                             \
    .q = (args)->q, .q_token_stride = (args)->q_token_stride,                                      \
    .q_head_stride = (args)->q_head_stride, .q_scales = (args)->q_scales,                          \
    .q_scale_token_stride = (args)->q_scale_token_stride,                                          \
    .q_scale_head_stride = (args)->q_scale_head_stride, .out = (args)->out,                        \
    .out_token_stride = (args)->out_token_stride, .out_head_stride = (args)->out_head_stride,      \
    .lse = (args)->lse, .page_table_stride = (args)->page_table_stride,                            \
    .seq_rows = (args)->seq_rows, .sinks = (args)->sinks, .alibi_slopes = (args)->alibi_slopes,    \
    .tree_parents = (args)->tree_parents, .mask_columns = (args)->mask_columns,                    \
    .mask_bits = (args)->mask_bits, .mask_stride = (args)->mask_stride

struct weft__attention_tile {
    int32_t seq, kv_head, first_head;
    int32_t first_token, tokens; // of the sequence
    int32_t key0, key1;          // the chunk
    float *partial;              // states of the rows, or NULL: finish them
    void *scratch;               // kernel->scratch_bytes(), aligned to 64 bytes
};

// Does `count` tiles in their order. What a tile gives does not depend on the others: they are given
// together so that a kernel can ask for the memory of the next tile before it is done with this one.
typedef void weft__attention_fn(const struct weft__attention_call *call,
                                const struct weft__attention_tile *tiles, int32_t count);

// Do the heads of a token lie side by side, in keys and values?
static inline bool weft__attention_heads_beside(const struct weft__attention_call *call)
{
    return call->k.head_stride < call->k.token_stride && call->v.head_stride < call->v.token_stride;
}

// Bytes of scratch that tiles of up to `rows` rows need.
typedef int64_t weft__attention_scratch_fn(int32_t rows, int32_t head_dim, int32_t v_dim);

// Short and long sequences of a batch, as the host knows them; all 0 where it does not.
enum { WEFT__ATTENTION_SHORT_KEYS = 2048 }; // attention_divide.cuh has it as WHOLE_KEYS
struct weft__attention_mix {
    int64_t long_keys;
    int32_t shorts, short_most; // how many, keys of the longest of them
};

// What a device's submit is given: the public arguments, settled, and new keys and values, where it is to append
// them itself (k NULL: it is not).
struct weft__attention_args {
    weft_attention_args base;
    const void *k, *v; // of a launch that appends
    int64_t k_token_stride, v_token_stride;
    // The device's own, of a batch; else 0: queries of all sequences as the host knows them (a recorded run may be
    // launched with others later), and counters that are 0, one for each block of a run, and places for what
    // blocks hand on (attention_handed.cuh).
    int64_t batch_tokens;
    int64_t batch_keys; // of all sequences, likewise; 0 where the host does not know
    struct weft__attention_mix batch_mix;
    int32_t batch_pages; // room of its list of pages, in which the first sequence comes first
    uint32_t *counters;
    float *handed;
    const uint64_t *step; // attention_device.h
    uint64_t *lines;
};

struct weft__attention_kernel {
    struct weft__kernel base;
    weft_dtype kv; // the one format that it reads in place, 0: any formats, strides and masks
    // The one format that queries enter in, 0: any. They have it, or may be rounded to it. Products are of pairs then:
    // elements below f32's normal numbers are 0.
    weft_dtype q;
    int32_t tile_rows; // rows that a tile should have if there are enough queries
    bool every_mask;   // a row of one format that serves all masks but the soft one
    bool late_masks;   // or at least those that differ from intervals in the last keys alone
    // Made for queries of the cache's format and heads of 64, 128 and 256: weft-check draws these, mostly.
    bool narrow_queries;
    bool few_apart; // rows of drafts are faster in tiles of WEFT__ATTENTION_FEW_ROWS
    // With queries of the cache's own 16-bit format, or of bf16 where it has one byte an element, weights are
    // rounded to theirs before they multiply values;
    // with f16 caches, what is below 2^-39 of a row's largest weight (2^-31 where they are rounded) may vanish.
    // Numbers below f32's normal ones may be 0.
    bool narrow_weights;
    // Of int8 caches: queries may be rounded to 2^-14 of their largest element, weights times the scales of
    // their values to 2^-15 of the largest of keys that are less than a block away.
    bool integers;
    weft__attention_fn *run;
    weft__attention_scratch_fn *scratch_bytes;
};

// What a plan decides. The workspace:
//
//      [sequence + 1] struct weft__attention_work | [tile of several chunks] chunks that are done |
//      [thread] scratch | [slot][row] states
struct weft__attention_launch {
    const struct weft__attention_kernel *kernel;
    weft_kv_layout kv; // settled: no member 0 that means another
    int32_t num_q_heads, group_size, ring_len;
    int32_t tile_heads,
        head_tiles; // query heads of a tile; how many such parts the query heads have
    int32_t block_keys;
    bool ahead, generic, precise;
    weft_attention_report report;
    weft_dtype q_dtype, out_dtype;
    struct weft__attention_mask mask;
    float scale, softcap, mask_value;
    int32_t max_seqs, max_q_tokens, max_kv_len;
    int32_t tile_tokens;  // queries per tile
    int32_t few_tokens;   // of sequences of few rows, 0: the same
    int32_t num_splits;   // chunks of every sequence, 0 = chunks of chunk_keys
    int32_t chunk_keys;   // fixed length of a chunk, 0 = from the work of the run
    int32_t split_tokens; // only sequences with at most so many queries are split
    int32_t target_tasks; // what a run without fixed chunks aims at, whatever the threads
    int32_t least_chunk;  // keys that are worth a task and a merge
    int32_t least_of_few; // the same where a run of few rows has few tasks otherwise
    int64_t max_slots;    // partial tiles that the workspace has room for
    int64_t most_slots;   // that a budget leaves where the lengths of a run decide
    int64_t done_offset;  // int32_t for every two slots
    int64_t scratch_offset, scratch_bytes;
    int64_t partial_offset, partial_bytes; // bytes of one slot
};

// Half-open interval of keys.
struct weft__attention_span {
    int32_t begin, end;
};

// The keys that query `token` (0..q_len-1) of a sequence sees; with trees and bits those that it may.
// Both ends grow with the query.
static inline struct weft__attention_span
weft__attention_visible(const struct weft__attention_mask *mask, int32_t q_len, int32_t kv_len,
                        int32_t kv_start, int32_t token)
{
    int64_t before = (int64_t)kv_len - q_len; // keys before the new ones
    int64_t own = mask->kind == WEFT_MASK_TREE ? before : before + token; // a tree: at the least
    int64_t begin = mask->window > 0 ? own - mask->window + 1 : 0, end = kv_len;
    if (mask->local_chunk > 0 && own > 0 && begin < own / mask->local_chunk * mask->local_chunk)
        begin = own / mask->local_chunk * mask->local_chunk;
    if (mask->kind == WEFT_MASK_CAUSAL)
        end = own + 1;
    else if (mask->window_right > 0)
        end = own + mask->window_right + 1;
    if (mask->soft)
        begin = 0, end = kv_len;
    begin = begin < kv_start ? kv_start : begin;
    end = end > kv_len ? kv_len : end;
    if (end < begin)
        end = begin = kv_start;
    return (struct weft__attention_span){(int32_t)begin, (int32_t)end};
}

static inline int32_t weft__attention_start(const struct weft__attention_lengths *lengths,
                                            int32_t seq)
{
    return lengths->kv_starts ? lengths->kv_starts[seq] : 0;
}

// The keys that at least one of `tokens` consecutive queries sees.
static inline struct weft__attention_span
weft__attention_union(const struct weft__attention_mask *mask, int32_t q_len, int32_t kv_len,
                      int32_t kv_start, int32_t first_token, int32_t tokens)
{
    struct weft__attention_span last =
        weft__attention_visible(mask, q_len, kv_len, kv_start, first_token + tokens - 1);
    for (int32_t i = first_token; i < first_token + tokens; i++) {
        struct weft__attention_span one = weft__attention_visible(mask, q_len, kv_len, kv_start, i);
        if (one.begin < one.end)
            return (struct weft__attention_span){one.begin, last.end};
    }
    return last;
}

// Is what a row sees more than an interval says?
static inline bool weft__attention_is_scattered(const struct weft__attention_mask *mask)
{
    return mask->kind == WEFT_MASK_TREE || mask->kind == WEFT_MASK_BITS || mask->soft ||
           mask->sparse_block > 0 || mask->sparse_keys > 0;
}

// Is what a row sees an interval but for the last keys of its sequence: draft tokens, or columns of bits?
static inline bool weft__attention_is_late(const struct weft__attention_mask *mask)
{
    const bool tree = mask->kind == WEFT_MASK_TREE && mask->window == 0 && mask->local_chunk == 0;
    return (tree || mask->kind == WEFT_MASK_BITS) && !mask->soft && mask->sparse_block == 0 &&
           mask->sparse_keys == 0;
}

// Bit j says whether query `token` of query head `head` sees key `key + j`, j < 64; all masks together,
// and as if they were hard.
uint64_t weft__attention_word(const struct weft__attention_call *call, int32_t seq, int32_t token,
                              int32_t head, int32_t key);

// The list of a sequence's pages.
static inline const int32_t *weft__attention_pages(const struct weft__attention_call *call,
                                                   int32_t seq)
{
    int64_t row = call->seq_rows ? call->seq_rows[seq] : seq;
    return call->pages +
           (call->page_starts ? call->page_starts[row] : row * call->page_table_stride);
}

// Where the first element of key `t` of a sequence lies in a plane, in elements.
static inline int64_t weft__attention_at(const struct weft__attention_call *call,
                                         const struct weft__attention_plane *plane,
                                         const int32_t *pages, int32_t kv_head, int32_t t)
{
    int32_t place = call->ring_len ? t % call->ring_len : t;
    return pages[place / call->page_size] * plane->page_stride + kv_head * plane->head_stride +
           place % call->page_size * plane->token_stride;
}

// Key `t` of a sequence, or its value, as numbers: y[plane->dim].
void weft__attention_read(const struct weft__attention_call *call,
                          const struct weft__attention_plane *plane, int32_t seq, int32_t kv_head,
                          int32_t t, float *y);

static inline int32_t weft__attention_rows(const struct weft__attention_call *call,
                                           const struct weft__attention_tile *tile)
{
    return tile->tokens * call->tile_heads;
}

// The query of a row, among those of its sequence, and its query head.
static inline int32_t weft__attention_token(const struct weft__attention_call *call,
                                            const struct weft__attention_tile *tile, int32_t row)
{
    return tile->first_token + row / call->tile_heads;
}

static inline int32_t weft__attention_head(const struct weft__attention_call *call,
                                           const struct weft__attention_tile *tile, int32_t row)
{
    return tile->first_head + row % call->tile_heads;
}

// Adds to the counts of a run, if somebody wants them.
void weft__attention_count(const struct weft__attention_call *call, uint64_t blocks,
                           uint64_t masked);

// The query of row `row` of a tile, q[head_dim].
void weft__attention_query(const struct weft__attention_call *call,
                           const struct weft__attention_tile *tile, int32_t row, float *q);

// Floats of one row's state: acc[v_dim], largest, sum, padded to whole cache lines.
static inline int64_t weft__attention_state_floats(int32_t v_dim)
{
    return (v_dim + 2 + 15) / 16 * 16;
}

// What the acc of a row is to be multiplied by, after its sink; negative: it saw nothing and is 0. Writes its LSE.
float weft__attention_close(const struct weft__attention_call *call, int64_t token, int64_t head,
                            float largest, float sum);

// Delivers the state of row r of a tile.
void weft__attention_finish(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tile, int32_t row, float largest,
                            float sum, const float *acc);

// The states of such a tile to the members of a report that are wanted.
void weft__attention_tell(const struct weft__attention_call *call,
                          const struct weft__attention_tile *tile, const float *slots,
                          int64_t slot_floats, int32_t chunks, const weft_attention_report *report);

// Finishes a tile whose chunks lie in `chunks` slots of slot_floats each.
void weft__attention_merge(const struct weft__attention_call *call,
                           const struct weft__attention_tile *tile, const float *slots,
                           int64_t slot_floats, int32_t chunks);

#endif
