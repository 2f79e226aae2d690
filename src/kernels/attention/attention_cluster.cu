// SPDX-License-Identifier: MIT
// Attention of one sequence of few rows, as attention_decode.cu has it, by clusters: WEFT_CLUSTERS clusters of WEFT_SPLITS blocks
// have a KV head, keys are divided among them. States of one cluster are merged through its shared memory
// (attention_pieces.cuh), those of several in memory, by the blocks of the last (attention_gather.cuh). Where a launch is all
// latency, that is faster than one block that merges slots.
//
// Function constants: those of attention_decode.cu with WEFT_M 1; WEFT_HEAD_DIM is a multiple of 32. WEFT_EIGHT (1: an item has eight rows at most). WEFT_SPLITS: blocks of a
// cluster. WEFT_CLUSTERS: of a KV head. WEFT_WARPS: of a block, 0 = 4. WEFT_BLOCKS: on an SM.
#include "src/kernels/attention/attention_decode.cuh"
#if WEFT_CLUSTERS > 1
#include "src/kernels/attention/attention_gather.cuh"

DEVICE int32_t cluster_of_head(const struct weft__attention_device_args *args)
{
    return (int32_t)blockIdx.x / WEFT_SPLITS / args->num_kv_heads;
}

// The block's part of the item; the last cluster's blocks merge. Clusters of the same number of all KV heads lie side by side.
DEVICE struct place place_of_block(const struct weft__attention_device_args *args, int32_t rank)
{
    return place_of_part(args, (int32_t)blockIdx.x / WEFT_SPLITS % args->num_kv_heads,
                         cluster_of_head(args) * WEFT_SPLITS + rank, BLOCKS, WEFT_SPLITS, WARPS);
}

DEVICE void item_end(const struct weft__attention_device_args *args, const struct place *at,
                     struct rows rows, const struct state *state, int32_t rank, int32_t warp,
                     int32_t lane)
{
    float *const places = args->handed + at->kv_head * BLOCKS * GATHERED_FLOATS;
    const int32_t cluster = cluster_of_head(args);
    if (at->left > 0) {
        if (__syncthreads_or(state_store(state, warp, lane, rows.count)))
            item_again(args, at, rows, at->left);
        state_send(rows, places + (cluster * WEFT_SPLITS + rank) * GATHERED_FLOATS);
    }
    if (cluster + 1 < WEFT_CLUSTERS)
        return;
    const struct division by =
        division_of(at->seq.tiles, BLOCKS, WEFT_SPLITS, args->merge_tiles, WARPS);
    rows_gather(args, at->seq.lengths, rows, places, parts_used(by, at->seq.tiles), rank, warp,
                lane);
}
#else
#include "src/kernels/attention/attention_pieces.cuh"

DEVICE float *shared_pieces(int32_t rows)
{
    return shared_state(WARPS, 0, rows);
}

DEVICE void item_end(const struct weft__attention_device_args *args, const struct place *at,
                     struct rows rows, const struct state *state, int32_t rank, int32_t warp,
                     int32_t lane)
{
    if (__syncthreads_or(state_store(state, warp, lane, rows.count)))
        item_again(args, at, rows, at->left);
    cluster_wait();
    pieces_send(rows, rank, warp, lane);
    cluster_barrier();
    pieces_end(args, at, rows, rank, warp, lane);
}
#endif

extern "C" __global__ void __launch_bounds__(WARPS *WARP, WEFT_BLOCKS)
    weft_attention_cluster(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ struct work work;
    __shared__ struct place asked[WARPS];
    __shared__ uint64_t barriers[WEFT_BOXES ? WARPS * WEFT_STAGES : 1];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    const int32_t rank = (int32_t)cluster_rank();
    let_next_start();
    if (!args.early)
        wait_for_previous();
    const struct place at = place_of_block(&args, rank);
    if (at.seq.items == 0) { // who waits for this launch waits for the one before it
        wait_for_previous();
        return;
    }
    const struct rows rows = rows_of(&args, &at);
    if (threadIdx.x == 0) {
        work.at = at, work.rows = rows;
        work.by_all = keys_by_all(&args, at.seq.lengths, row_at(&args, rows, 0).token,
                                  row_at(&args, rows, rows.count - 1).token);
    }
    if (lane == 0)
        asked[warp] = at;
    __syncwarp();
    struct ring ring;
    ring_begin(&args, &ring, &asked[warp], barriers, warp, lane);
    for (int32_t i = 0; i < WEFT_STAGES; i++) {
        if (args.early && ring.tile < ring.last && !ring_is_old(&ring))
            wait_for_previous();
        ring_ask(&args, &ring);
    }
    if (WEFT_CLUSTERS <= 1)
        cluster_arrive(); // the block is there and may be sent pieces
    queries_load(&args, at.seq.lengths, rows, warp, lane, args.early);
    struct state state;
    state_begin(&state);
    __syncthreads();
    tiles_walk(&args, &work, &ring, at.tile + warp, at.tile + at.left, &state);
    item_end(&args, &at, rows, &state, rank, warp, lane);
}
