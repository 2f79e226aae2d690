// SPDX-License-Identifier: MIT
// The division of a run's work into tasks, from the lengths of the run.
#ifndef WEFT_KERNELS_ATTENTION_WORK_H
#define WEFT_KERNELS_ATTENTION_WORK_H

#include "src/kernels/attention/attention_kernel.h"

// A run that is worth 32 of its longest tiles and more has tasks enough for most machines as it is; splitting it
// must cost next to nothing.
enum {
    WEFT__ATTENTION_MANY_TILES = 32,
    WEFT__ATTENTION_LEAST_OF_MANY = 8192,
};

// Tasks that one sequence of few rows is divided in, if it is long enough for that: the same on every machine,
// so that bits are, and enough for most.
enum { WEFT__ATTENTION_FEW_TASKS = 16 };

// Rows that go through a kernel's loops for few, and of how many such tiles a sequence may be so divided.
enum { WEFT__ATTENTION_FEW_ROWS = 8, WEFT__ATTENTION_FEW_TILES = 4 };

// Rows of a tile of which those of several KV heads go through a kernel together, token by token; of how many heads at
// most; and of how many chunks a sequence must be for that to be worth the cold beginning of all of them.
enum {
    WEFT__ATTENTION_KEYS_ROWS = 16,
    WEFT__ATTENTION_KEYS_HEADS = 8,
    WEFT__ATTENTION_KEYS_CHUNKS = 8,
};

// Is a sequence of q_len queries one of few rows?
static inline bool weft__attention_is_few(const struct weft__attention_launch *launch,
                                          int32_t q_len)
{
    return launch->few_tokens > 0 && q_len <= launch->few_tokens * WEFT__ATTENTION_FEW_TILES;
}

// Queries of a tile of a sequence that has q_len.
static inline int32_t weft__attention_tile_tokens(const struct weft__attention_launch *launch,
                                                  int32_t q_len)
{
    return weft__attention_is_few(launch, q_len) ? launch->few_tokens : launch->tile_tokens;
}

// Is a sequence of q_len queries one tile of few rows for each KV head, in many chunks? Then tasks of all heads that read
// the same tokens are neighbours.
static inline bool weft__attention_by_keys(const struct weft__attention_launch *launch,
                                           int32_t q_len, int32_t chunks)
{
    return chunks >= WEFT__ATTENTION_KEYS_CHUNKS &&
           q_len <= weft__attention_tile_tokens(launch, q_len) &&
           (int64_t)q_len * launch->tile_heads <= WEFT__ATTENTION_KEYS_ROWS;
}

// How the work of a run is divided. Tasks are numbered; those of one sequence follow each other:
//
//      task = first_task + ((head_tile * tiles) + (tiles - 1 - tile)) * chunks + chunk
//
// head_tile: first_head / tile_heads; so tasks of one KV head are neighbours and the longest tiles of a causal
// mask come first. Where a sequence's tiles are of few rows, chunk * tiles + ... comes first: whoever reads a
// chunk for one tile has it in a cache for the next. Where a head has one such tile
// in many chunks, chunk * head_tiles + head_tile.
struct weft__attention_work {
    int32_t first_task;
    int32_t tiles, chunks;
    int32_t first_merge; // tiles that lie in several slots are numbered
    int64_t first_slot;
};

struct weft__attention_totals {
    int32_t tasks, merges;
    // No chunk is longer where keys are split without a wanted number; 0: none is.
    int64_t chunk_keys;
};

// Fills work[0..num_seqs] (the last entry ends the list) from the lengths of a run. Costs
// O(num_seqs * log(largest chunk count)).
struct weft__attention_totals weft__attention_divide(const struct weft__attention_launch *launch,
                                                     const struct weft__attention_lengths *lengths,
                                                     struct weft__attention_work *work);

// A task in words of the problem.
struct weft__attention_place {
    int32_t seq, kv_head, first_head, tile, chunk, chunks;
    int32_t first_token, tokens;
    int32_t key0, key1;
    int32_t merge; // number of the tile among those that are split, -1 if it is not
    int64_t slot;  // of the chunk, -1
};

struct weft__attention_place weft__attention_task(const struct weft__attention_launch *launch,
                                                  const struct weft__attention_lengths *lengths,
                                                  const struct weft__attention_work *work,
                                                  int32_t task);

#endif
