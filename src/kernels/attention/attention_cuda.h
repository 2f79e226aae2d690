// SPDX-License-Identifier: MIT
// What the planning of attention on CUDA shares between its kernels.
#ifndef WEFT_KERNELS_ATTENTION_CUDA_H
#define WEFT_KERNELS_ATTENTION_CUDA_H

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/cuda/launch.h"
#include "src/kernels/rope/rope_kernel.h"

// Kernels of a plan by number: ANY and SINGLE take the place of DECODE.
enum {
    WEFT__ATTENTION_BEGIN,
    WEFT__ATTENTION_DECODE,
    WEFT__ATTENTION_ANY = WEFT__ATTENTION_DECODE,
    WEFT__ATTENTION_SINGLE = WEFT__ATTENTION_DECODE
};

// Functions of attention_single.cu.
#define WEFT__ATTENTION_FAST     "weft_attention_fast"
#define WEFT__ATTENTION_STANDARD "weft_attention_standard"

enum {
    WEFT__ATTENTION_WARPS = 4,       // of a block
    WEFT__ATTENTION_TOKEN_WARPS = 8, // of a block of attention_token.cu
    WEFT__ATTENTION_CLUSTER =
        16, // blocks of a cluster of attention_cluster.cu that has a KV head alone
};

// The clusters of attention_cluster.cu.
struct weft__attention_clusters {
    int32_t of_head; // clusters that have a KV head
    int32_t blocks;  // of a cluster
    int32_t warps;   // of a block
    uint32_t shared_bytes;
};

// The launch of attention_abreast.cu.
struct weft__attention_abreast {
    int32_t kernel; // its number, 0: there is none
    uint32_t blocks, threads, shared_bytes;
    int32_t end_tiles;  // attention_device.h
    int64_t least_keys; // of a batch that it is chosen for
};

// What plans choose by, per device (attention_devices.def).
struct weft__attention_thresholds {
    int32_t
        few_keys; // one sequence of up to so many: two launches of attention_cluster.cu share an SM
    int32_t cluster_keys; // of up to so many: attention_cluster.cu; of more: equal shares
    int32_t end_bytes;    // what decode reads in the time that the end of an item takes it
    int32_t whole_keys; // prefill of plans of no more is not sliced: merging costs what slices save
    int32_t merge_bytes; // what a block of several clusters reads in the time that merging takes it
    // keys and values for each multiprocessor that whole tokens are read for, where pages are of few tokens; 0: for none
    int32_t abreast_bytes;
};

struct weft__attention_cuda_launch {
    uint32_t number; // no other plan of the process has it
    struct weft__attention_thresholds thresholds;
    weft_mask mask;
    int32_t window, window_right, local_chunk, ring_len;
    int32_t group_size, num_q_heads, num_kv_heads;
    float scale, softcap, cap_unit, mask_value;
    struct weft__attention_device_sparse sparse; // without its lists
    int32_t splits, chunk_tiles;                 // attention_device.h
    int32_t chunks_most;                         // of an item, 0: equal shares
    int32_t end_tiles, merge_tiles;              // attention_device.h
    int32_t handed_tiles;                        // merge_tiles of equal shares
    int32_t most_rows; // queries of all sequences times the heads of a KV head
    bool any;
    uint32_t blocks, shared_bytes; // as many as are resident, or the chunks that there may be
    uint32_t single_threads;       // of a block of attention_single.cu; 0: another kernel
    int32_t slot_rows;
    int32_t few_rows;   // sequences of at most so many are decode's, 16 or 32, others prefill's
    int32_t elem_bytes; // of the cache, for kernels of tensor cores
    // In the workspace, behind the slots: places of what blocks hand on (`handed`, attention_handed.cuh), counters.
    int64_t counters_offset;
    bool handed;
    int64_t places;                                // of what is handed on
    uint32_t prefill_blocks, prefill_shared_bytes; // 0: decode serves every sequence
    int32_t prefill_rows;                          // of a block
    int32_t slice_blocks, wgmma_slice_blocks; // attention_device.h, of either kernel of prefill
    int64_t slice_bytes;                      // of their slots
    int32_t prefill, wgmma, append, token;    // numbers of kernels; 0: there is none
    int32_t cluster;                          // of one sequence, likewise
    struct weft__attention_clusters clusters; // its
    int32_t boxes, append_boxes;   // decode and append by boxes of the copy engine, likewise
    int32_t copied_rows;           // decode by rows of it
    int32_t filled, append_filled; // by boxes, in filled shares
    struct weft__attention_abreast abreast;
    int32_t head_dim, page_size;
    int32_t wgmma_rows;     // of a block of prefill by warpgroups
    int32_t wgmma_box_rows; // of the boxes that its tiles come in, 0: they do not
    uint32_t wgmma_blocks, wgmma_shared_bytes;
    int32_t wgmma_set_keys; // attention_device.h
    int32_t token_splits;   // blocks of a cluster of token
    uint32_t token_shared_bytes;
    struct weft__rope_frequencies frequencies; // of append
    const void *turns;                         // on the device
};

// Items of tiles of `rows` rows that a run has at most.
static inline int64_t weft__attention_items_most(const weft_attention_desc *desc,
                                                 int32_t group_size, int32_t rows_of_tile)
{
    int64_t row_tiles =
        ((int64_t)desc->max_q_tokens * group_size + rows_of_tile - 1) / rows_of_tile +
        desc->max_seqs;
    return row_tiles * desc->kv.num_kv_heads;
}

// Does what a query sees have to be looked up beyond an interval of keys?
static inline bool weft__attention_scatters(const weft_attention_desc *desc)
{
    return desc->mask == WEFT_MASK_TREE || desc->mask == WEFT_MASK_BITS ||
           desc->flags & (WEFT_ATTENTION_SPARSE | WEFT_ATTENTION_SPARSE_LISTS);
}

// Are queries rounded to the format of the cache on their way through append?
static inline bool weft__attention_narrows(const weft_attention_desc *desc)
{
    return desc->flags & WEFT_ATTENTION_NARROW_QUERIES && desc->flags & WEFT_ATTENTION_APPEND &&
           (desc->kv.dtype == WEFT_F16 || desc->kv.dtype == WEFT_BF16);
}

// WEFT_SPARSE of attention_mask.cuh.
static inline int32_t weft__attention_sparse_kinds(const weft_attention_desc *desc)
{
    return (desc->flags & WEFT_ATTENTION_SPARSE ? 1 : 0) |
           (desc->flags & WEFT_ATTENTION_SPARSE_LISTS ? 2 : 0);
}

// Does a block take a chunk of an item, instead of a share of all tiles?
static inline bool weft__attention_in_chunks(const struct weft__attention_cuda_launch *launch)
{
    return launch->splits || launch->chunk_tiles;
}

// attention_devices_cuda.c. A list ends in a name of no characters; the first whose name begins the device's is its own.
struct weft__attention_device {
    const char *name;
    struct weft__attention_thresholds of;
};

const struct weft__attention_device *
weft__attention_device_named(const struct weft__attention_device *list, const char *name);

// Those of the device and of the machine's table that the choice names.
struct weft__attention_thresholds
weft__attention_thresholds_of(const struct weft__cuda_choice *choice);

// attention_division_cuda.c. How a run is divided, from the descriptor and from how many items there may be.
weft_status weft__attention_plan_items(const weft_attention_desc *desc, int64_t items,
                                       int32_t keys_of_tile,
                                       struct weft__attention_cuda_launch *launch,
                                       struct weft__cuda_choice *choice);

// What a block does in the time that it reads `bytes` of keys and values counts for, in tiles of `keys_of_tile` keys.
int32_t weft__attention_tiles_of(const weft_attention_desc *desc, int32_t keys_of_tile,
                                 int32_t bytes);

// The blocks of a run of up to `items` items, slots for their states, and counters. `blocks` of the launch: as many
// as are resident.
weft_status weft__attention_plan_workspace(int64_t slot_floats, int64_t items,
                                           struct weft__attention_cuda_launch *launch,
                                           struct weft__cuda_choice *choice);

// Blocks that a run of fewer items of prefill is divided among (attention_device.h), 0: items stay whole. Notes the bytes of slots.
int32_t weft__attention_plan_slices(const weft_attention_desc *desc, int32_t blocks,
                                    int32_t rows_of_item,
                                    struct weft__attention_cuda_launch *launch);

// Chunks of every item of a run that had better be in chunks than in shares: one sequence whose rows are one tile
// has as many blocks for each KV head as there are, and none has parts of two. 0: shares.
int32_t weft__attention_even_splits(const struct weft__attention_cuda_launch *launch,
                                    int32_t num_seqs);

// KV heads that the `blocks` of a launch of decode read side by side (attention_device.h): as many as leave next to no block idle.
int32_t weft__attention_heads_abreast(const struct weft__attention_cuda_launch *launch,
                                      uint32_t blocks);

// For descriptions: ", items whole" and the like.
const char *weft__attention_division_text(const struct weft__attention_cuda_launch *launch,
                                          int32_t keys_of_tile, char text[64]);

// attention_steps_cuda.c.
int32_t weft__attention_cuda_steps(const void *launch, const void *args,
                                   struct weft__cuda_step *steps);

// attention_any_cuda.c: caches of any format.
weft_status weft__attention_any_plan(const weft_attention_desc *desc,
                                     const struct weft__cuda_limits *limits,
                                     struct weft__cuda_choice *choice);
void weft__attention_any_step(const struct weft__attention_cuda_launch *launch,
                              const weft_attention_args *args,
                              const struct weft__attention_device_args *device,
                              struct weft__cuda_step *step);

// attention_wgmma_cuda.c: prefill by warpgroups, for plans of the rows of sm_90a.
bool weft__attention_wgmma_serves(const weft_attention_desc *desc);
bool weft__attention_wgmma_plan(const weft_attention_desc *desc,
                                const struct weft__cuda_limits *limits,
                                struct weft__cuda_choice *choice);
// False where the operands of a run do not lie as the kernel needs them: the other prefill's run.
bool weft__attention_wgmma_step(const struct weft__attention_cuda_launch *launch,
                                const struct weft__attention_device_args *device,
                                struct weft__cuda_step *step);

// attention_single.cu.
bool weft__attention_single_serves(const char *function, const weft_attention_desc *desc);
void weft__attention_single_plan(const weft_attention_desc *desc, const char *function,
                                 struct weft__cuda_choice *choice);
void weft__attention_single_step(const struct weft__attention_cuda_launch *launch,
                                 const struct weft__attention_device_args *device,
                                 struct weft__cuda_step *step);

#endif
