// SPDX-License-Identifier: MIT
// What the host and the device text of attention agree on. Plain C, fixed widths; pointers are device
// pointers, strides in elements.
//
// Division of a decode run, made on the device from the lengths, so that a graph replays with new ones:
// an item is (sequence, KV head, 16 rows of queries); its keys come in tiles of WEFT_KEYS. Blocks stand in
// `heads_abreast` files, a divisor of the KV heads: block b is number b / heads_abreast of file b % heads_abreast. So KV heads, which
// lie side by side in memory, are read side by side in time.
//
//      file 0: blocks 0, H, 2 H ...        KV heads 0, H, 2 H ... of all sequences        (H = heads_abreast)
//      file 1: blocks 1, H + 1 ...         KV heads 1, H + 1 ...
//
// All tiles of all items of a file form one list, sequence by sequence; number i of G takes the share [i * each, (i + 1) *
// each). An item's end (queries of the next, states of the warps) takes as long as `end_tiles` tiles and counts for as many in
// the list, behind the item's own. An item that lies in one share is finished by its block. Of others each block leaves a state in a slot
// of its file:
//
//      slot 2 i      the item began in an earlier block
//      slot 2 i + 1  it began in block i
//
// A plan may ask for chunks instead, of which every block takes one: each item in `splits` chunks, or in chunks of
// `chunk_tiles` tiles. What an item gives is a function of its own length then. A block has one slot, of its own number.
//
//      slot: float acc[slot_rows][padded head_dim], (largest, sum)[slot_rows]      (units of log2, as on the CPU)
//
// and the block that arrives last (counted where the item began) merges the slots in their order.
//
// Prefill has items of more rows, a block each. Where there are no more than half of `slice_blocks`, every item is worked at in slices of
// its keys, as many as leave each slice a block (attention_slices.cuh): slice s of item i has slot i * slices + s, an item its own counter.
//
// The counters are
// 0 again then: those of a batch are set to zero once in its life, others by a launch before.
//
// Decode of equal shares, sixteen rows and heads of up to 128 has no counter: states are handed on to the block that has
// the item's last tile (attention_handed.cuh). Where its tiles come in boxes, and items of few tiles are among items of many, a block has
// some of the former whole, behind its part of the latter (attention_filled.cuh).
//
// Blocks that read whole tokens (attention_abreast.cu) stand in one file, an item has all KV heads: heads_abreast is their number,
// heads_each 1.
#ifndef WEFT_KERNELS_ATTENTION_DEVICE_H
#define WEFT_KERNELS_ATTENTION_DEVICE_H

#include <stdint.h>

enum { WEFT__ATTENTION_ROWS = 16 };

// Words of a block's line of a batch (attention_kept.cuh).
enum { WEFT__ATTENTION_LINE_WORDS = 64 };

// As enum weft_mask.
enum weft__attention_mask_kind {
    WEFT__ATTENTION_CAUSAL,
    WEFT__ATTENTION_FULL,
    WEFT__ATTENTION_TREE,
    WEFT__ATTENTION_BITS,
};

struct weft__attention_device_plane {
    const void *data;
    int64_t page_stride, head_stride, token_stride;
};

// What the elements of a plane are multiplied by.
struct weft__attention_device_scales {
    const float *of; // NULL: 1
    int64_t seq_stride, page_stride, head_stride, token_stride;
};

// Blocks of keys that queries see, as struct weft__attention_mask and the public arguments have them; 0 = all.
struct weft__attention_device_sparse {
    const int32_t *blocks, *starts, *first;        // lists
    int32_t queries, keys, own_lists;              // own_lists: each KV head has its own
    int32_t block, local, stride, head_step, rank; // bands
};

struct __attribute__((aligned(64))) weft__attention_device_args { // as tensor maps want it
    // WEFT_BOXES: tensor maps of the planes as [page][head][slot][column]; WEFT_ABREAST: as [page][64 columns of all heads][slot][column]
    unsigned char k_map[128], v_map[128];
    const void *q;
    int64_t q_token_stride, q_head_stride;
    const float *q_scales; // of fp8 queries, or NULL: 1
    int64_t q_scale_token_stride, q_scale_head_stride;
    void *out;
    int64_t out_token_stride, out_head_stride;
    float *lse; // [tokens][num_q_heads] or NULL
    struct weft__attention_device_plane k, v;
    struct weft__attention_device_scales k_scales, v_scales;
    const int32_t *cu_q_lens, *kv_lens;
    const int32_t *num_seqs_at; // how many of num_seqs count, or NULL: all
    const int32_t *page_table;  // row b at b * page_table_stride, or at page_starts[b]
    const int32_t *page_starts; // or NULL
    const int32_t *seq_rows;    // row of the table that is sequence b's; NULL = b
    const int32_t *kv_starts;   // keys before are padding; NULL = 0
    int64_t page_table_stride;
    const float *sinks, *alibi_slopes; // [num_q_heads] or NULL
    const int32_t *tree_parents, *mask_columns;
    const uint32_t *mask_bits;
    int64_t mask_stride; // words
    float *slots;
    uint32_t *counters; // [block], zero before and after
    float *handed; // WEFT_HANDED, WEFT_ABREAST: places of blocks, all bits set before and after
    int32_t num_seqs, num_q_heads, num_kv_heads, group_size, page_size;
    int32_t mask;                                        // enum weft__attention_mask_kind
    int32_t window, window_right, local_chunk, ring_len; // 0 = none
    int32_t min_share;                                   // tiles a block takes at least
    int32_t end_tiles; // equal shares: what an item's end counts for beside its tiles
    int32_t slot_rows;
    int32_t
        early; // lengths, pages and keys before the run's own are there before the launch before has ended
    int32_t first_pages;   // of the first sequence's, can be read whatever its length
    int32_t aligned;       // rows of the cache begin at multiples of 16 bytes
    int32_t splits;        // chunks of every item, 1 = items stay whole
    int32_t chunk_tiles;   // tiles of a chunk where splits is 0; both 0: equal shares of all tiles
    int32_t heads_abreast; // a divisor of num_kv_heads
    int32_t heads_each;    // num_kv_heads / heads_abreast
    int32_t slice_blocks; // prefill: blocks that fewer items are divided among, 0: items stay whole
    int32_t least_rows,
        most_rows; // queries times group_size of the sequences that this launch serves
    float scale, softcap, mask_value;
    struct weft__attention_device_sparse sparse;
    // WEFT_APPEND: keys and values of the tokens, one of each sequence, which the launch rotates and stores.
    const float *new_k, *new_v;
    int64_t new_k_stride, new_v_stride; // from token to token
    const double *turns;                // per position, of every pair
    float turn_factor;
    // Behind all others, so that the machine code of kernels that read neither is what it was (NOTES.md).
    int32_t
        merge_tiles; // several clusters, filled shares: tiles that a block which merges has less than others
    int32_t boxed;    // prefill by warpgroups: the maps say where the cache lies
    int32_t set_keys; // prefill: 64s of keys that L2 holds while others are read
    // Filled shares of a batch (attention_kept.cuh), or NULL: the number of its step, another whenever lengths or pages are; lines of
    // blocks; what a division follows from beside the step.
    const uint64_t *step;
    uint64_t *lines;
    uint64_t division;
    float cap_unit; // sqrt(8) scale / softcap, finite
};

// Planes whose heads may lie in pieces.
struct weft__attention_any_args {
    struct weft__attention_device_args base;
    int64_t k_inner_stride, v_inner_stride;
};

// Sets `count` words to a value.
struct weft__attention_begin_args {
    uint32_t *handed, *counters; // places of what is handed on get all bits set, counters become 0
    int32_t num_handed, num_counters;
};

// head_dim as tensor cores take it, a multiple of 16.
static inline int32_t weft__attention_padded_dim(int32_t head_dim)
{
    return (head_dim + 15) / 16 * 16;
}

// Floats of a place of attention_handed.cuh, for heads of up to 128.
enum {
    WEFT__ATTENTION_HANDED_DIM = 128,
    WEFT__ATTENTION_HANDED_FLOATS = WEFT__ATTENTION_ROWS * (WEFT__ATTENTION_HANDED_DIM + 2)
};

// Floats of a slot.
static inline int64_t weft__attention_slot_floats(int32_t head_dim, int32_t slot_rows)
{
    return slot_rows * ((int64_t)weft__attention_padded_dim(head_dim) + 2);
}

#endif
