// SPDX-License-Identifier: MIT
// Attention of one new token per sequence for small batches, from unrotated queries to its result in one launch: RoPE,
// append, attention, rounding. A cluster of WEFT_SPLITS blocks has a KV head of a sequence; keys are divided among its
// blocks, the tiles of a block among its warps.
//
// Nothing of the launch before is needed to know which keys there are, so the ring of a warp, cos and sin are full
// when that launch ends: kernels that write caches, lengths or pages do not let the next launch start before they
// have done so. Keys and values come in boxes (attention_boxes.cuh) or, of other pages, as one bulk copy a row. Text is short on purpose: a launch between others
// finds it cold, and NOTES.md says what that costs.
//
// attention_pieces.cuh merges the states.
//
// Function constants: those of attention_decode.cu with WEFT_APPEND, WEFT_KEYS 16, WEFT_PARTS 1; WEFT_HEAD_DIM is 32, 64,
// 96 or 128. WEFT_SPLITS: blocks of a cluster. Rows of the cache begin at multiples of 16 bytes.
#include <stdint.h>

enum {
    HEAD = WEFT_HEAD_DIM,
    DIM = HEAD,
    ROWS = 16,
    WARPS = 8,
    THREADS = WARPS * 32,
    KEYS = WEFT_KEYS,
    PAGE = WEFT_PAGE,
    CHUNKS = HEAD / 8, // of 16 bytes in a row
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * (WEFT_BOXES ? HEAD * 2 : ROW_BYTES),
    STAGE_BYTES = 2 * PLANE_BYTES, // keys, then values
    WARP_BYTES = WEFT_STAGES * STAGE_BYTES,
    RING_BYTES = WARPS * WARP_BYTES,
    PART_BYTES = ROWS * ROW_BYTES,
    FRESH_BYTES = 2 * ROW_BYTES,
    ANGLE_BYTES = WEFT_ROTARY / 2 * 8,
    STATE_FLOATS = DIM + 4, // acc, largest, sum; padded
    KEEPS_QUERIES = 0,
    SCORE_STEPS = DIM > 128 ? 2 : 8,
};

// Shared memory: rings, later states | queries | a factor a row | the new key and value | cos, sin | a barrier a warp | pieces of every block
static __device__ __forceinline__ uint8_t *shared_memory()
{
    extern __shared__ __align__(1024) uint8_t bytes[];
    return bytes;
}

// In the ring of the warp, which has been read by then.
static __device__ __forceinline__ float *shared_state(int32_t warp, int32_t row, int32_t)
{
    return (float *)(shared_memory() + warp * WARP_BYTES) + row * STATE_FLOATS;
}

#define PIECES_SAY 1
#include "src/kernels/attention/attention_fresh.cuh"
#include "src/kernels/attention/attention_pieces.cuh"
#include "src/kernels/attention/attention_tile.cuh"
#include "src/kernels/cuda/bulk.cuh"

DEVICE float *shared_factors()
{
    return (float *)(shared_memory() + RING_BYTES + PART_BYTES);
}

DEVICE uint8_t *shared_fresh()
{
    return shared_memory() + RING_BYTES + PART_BYTES + 4 * ROWS;
}

DEVICE float2 *shared_angles()
{
    return (float2 *)(shared_fresh() + FRESH_BYTES);
}

DEVICE uint64_t *pieces_barrier(int32_t warp)
{
    return (uint64_t *)(shared_fresh() + FRESH_BYTES + ANGLE_BYTES) + warp;
}

DEVICE float *shared_pieces(int32_t)
{
    return (float *)pieces_barrier(WARPS);
}

#include "src/kernels/attention/attention_one.cuh"

// --- the ring of a warp ----------------------------------------------------------------------------

struct ring {
    uint32_t barriers;    // of the warp's slots
    int32_t fresh;        // the key that this launch appends
    int32_t tile, end;    // the next tile to ask for, of the block
    int32_t slot;         // where it goes
    const int32_t *pages; // of the sequence
    int32_t page;         // of the lane's key of that tile; WEFT_BOXES: of the tile
};

DEVICE int32_t key_of(const struct place *at, int32_t tile, int32_t lane)
{
    return at->seq.begin + tile * KEYS + lane % 16;
}

DEVICE int32_t page_key(const struct ring *ring, const struct place *at, int32_t lane)
{
    return WEFT_BOXES ? max(key_of(at, ring->tile, 0), at->seq.first_key)
                      : key_of(at, ring->tile, lane);
}

DEVICE void ring_page(struct ring *ring, const struct place *at, int32_t lane)
{
    const int32_t key = page_key(ring, at, lane);
    ring->page = ring->tile < ring->end && sees(at, key) ? __ldcg(ring->pages + key / PAGE) : 0;
}

// The lane's of the first pages of a batch's first sequence, asked for on one trip to memory with its length.
DEVICE int32_t first_pages(const struct weft__attention_device_args *args, int32_t lane)
{
    return lane < args->first_pages && blockIdx.y == 0 ? __ldcg(args->page_table + lane) : 0;
}

// The page of the first tile.
DEVICE void ring_first_page(struct ring *ring, const struct weft__attention_device_args *args,
                            const struct place *at, int32_t first, int32_t lane)
{
    const int32_t key = page_key(ring, at, lane), index = key / PAGE;
    const int32_t page = __shfl_sync(0xffffffffu, first, min(index, WARP - 1));
    const bool known = index < min(args->first_pages, WARP) && blockIdx.y == 0;
    ring->page = ring->tile < ring->end && sees(at, key) ? page : 0;
    if (!__all_sync(0xffffffffu, known))
        ring_page(ring, at, lane);
}

#if WEFT_BOXES
// Asks for the warp's next tile.
DEVICE void tile_ask(const struct weft__attention_device_args *args, const struct ring *ring,
                     const struct place *at, uint32_t to, uint32_t barrier, int32_t lane)
{
    const int32_t first = key_of(at, ring->tile, 0);
    if (lane != 0)
        return;
    if (sees(at, max(first, at->seq.first_key)))
        boxes_ask(args->k_map, args->v_map, to, at->kv_head, ring->page, first % PAGE, barrier);
    else // a sequence of no keys
        barrier_arrive(barrier);
}

// What of a tile did not come out of the cache.
DEVICE void tile_mend(const struct ring *ring, const struct place *at, uint8_t *slot, int32_t key0,
                      int32_t lane)
{
    const int32_t fresh = ring->fresh - key0;
    if (key0 < at->seq.first_key || fresh < KEYS)
        boxes_mend(slot, at->seq.first_key - key0, at->seq.end_key - key0, fresh,
                   fresh >= 0 && fresh < KEYS ? shared_fresh() : NULL, lane);
}
#else
// Asks for the warp's next tile: lane l for key l, or value l - 16. Rows that nobody sees are zeros.
DEVICE void tile_ask(const struct weft__attention_device_args *args, const struct ring *ring,
                     const struct place *at, uint32_t to, uint32_t barrier, int32_t lane)
{
    const struct weft__attention_device_plane *plane = lane < 16 ? &args->k : &args->v;
    const int32_t key = key_of(at, ring->tile, lane);
    const bool seen = sees(at, key), comes = seen && key != ring->fresh;
    const int32_t rows = __popc(__ballot_sync(0xffffffffu, comes));
    if (lane == 0)
        barrier_expect(barrier, (uint32_t)rows * HEAD * 2);
    __syncwarp();
    to += lane / 16 * PLANE_BYTES + lane % 16 * ROW_BYTES;
    if (comes) {
        copy_bulk(to, (const uint16_t *)plane->data + plane_at(plane, at->kv_head, ring->page, key),
                  HEAD * 2, barrier);
    } else if (!seen) {
#pragma unroll 1
        for (int32_t i = 0; i < HEAD * 2; i += 16)
            store_16_shared(to + i, make_uint4(0, 0, 0, 0));
        bulk_fence(); // the slot's next tile may have the row
    }
}

// The new key and value go to their rows of the tile.
DEVICE void tile_mend(const struct ring *ring, const struct place *, uint8_t *slot, int32_t key0,
                      int32_t lane)
{
    const int32_t row = ring->fresh - key0;
    if (row < 0 || row >= KEYS)
        return;
#pragma unroll 1
    for (int32_t i = lane; i < 2 * CHUNKS; i += WARP) {
        const int32_t plane = i / CHUNKS, chunk = i % CHUNKS;
        *(uint4 *)(slot + plane * PLANE_BYTES + row * ROW_BYTES + chunk * 16) =
            *(const uint4 *)(shared_fresh() + plane * ROW_BYTES + chunk * 16);
    }
    __syncwarp();
}
#endif

DEVICE void ring_ask(const struct weft__attention_device_args *args, struct ring *ring,
                     const struct place *at, int32_t warp, int32_t lane)
{
    if (ring->tile >= ring->end)
        return;
    tile_ask(args, ring, at,
             shared_address(shared_memory()) + warp * WARP_BYTES + ring->slot * STAGE_BYTES,
             ring->barriers + 8 * ring->slot, lane);
    ring->slot = ring->slot + 1 == WEFT_STAGES ? 0 : ring->slot + 1;
    ring->tile += WARPS;
    ring_page(ring, at, lane);
}

// --- rows of queries, the new key ------------------------------------------------------------------

// The new key, rotated, and its value: narrow, into shared memory and into the cache.
DEVICE void fresh_keep(const struct weft__attention_device_args *args, const struct place *at,
                       const struct head *key, const int32_t *pages, int32_t lane)
{
    const int32_t position = at->seq.lengths.kv_len - 1, page = __ldcg(pages + position / PAGE);
    const float *v =
        args->new_v + at->seq.lengths.first_token * args->new_v_stride + at->kv_head * HEAD;
    uint16_t *k_row = (uint16_t *)args->k.data + plane_at(&args->k, at->kv_head, page, position);
    uint16_t *v_row = (uint16_t *)args->v.data + plane_at(&args->v, at->kv_head, page, position);
#pragma unroll
    for (int32_t i = 0; i < QUERY_PAIRS; i++) {
        const int32_t d = 2 * (i * WARP + lane);
        if (HEAD % 64 != 0 && d >= HEAD)
            continue;
        const uint32_t k = two_narrow(key->own[i].x, key->own[i].y);
        const uint32_t w = two_narrow(v[d], v[d + 1]);
        *(uint32_t *)(shared_fresh() + 2 * d) = k;
        *(uint32_t *)(shared_fresh() + ROW_BYTES + 2 * d) = w;
        *(uint32_t *)(k_row + d) = k;
        *(uint32_t *)(v_row + d) = w;
    }
}

// Row by row, a warp each; behind the queries comes the new key, in the block that has its tile.
DEVICE void rows_load(const struct weft__attention_device_args *args, const struct place *at,
                      struct rows rows, bool has_fresh, const int32_t *pages, int32_t warp,
                      int32_t lane)
{
    const struct lengths lengths = at->seq.lengths;
    const struct turns turns = turns_shared(lane);
#pragma unroll 1
    for (int32_t i = warp; i < rows.count + has_fresh; i += WARPS) {
        const bool query = i < rows.count;
        const float *x =
            query ? (const float *)args->q + query_at(args, lengths, row_at(args, rows, i))
                  : args->new_k + lengths.first_token * args->new_k_stride + at->kv_head * HEAD;
        struct head head = head_load(x, lane);
        head_turn(&head, &turns, lane);
        if (query)
            query_store(head.own, shared_memory() + RING_BYTES + i * ROW_BYTES, PART_BYTES, lane,
                        shared_factors() + i);
        else
            fresh_keep(args, at, &head, pages, lane);
    }
}

// Of the thread's pair.
DEVICE double turns_ask(const struct weft__attention_device_args *args)
{
    static_assert(WEFT_ROTARY / 2 <= THREADS, "a pair a thread");
    return WEFT_ROPE && threadIdx.x < WEFT_ROTARY / 2 ? __ldcg(args->turns + threadIdx.x) : 0.0;
}

// Before the launch before has ended: cos and sin, zeros for the rows that are not there.
DEVICE void rows_prepare(const struct weft__attention_device_args *args, int32_t position,
                         int32_t rows, double turns)
{
    if (WEFT_ROPE && threadIdx.x < WEFT_ROTARY / 2)
        shared_angles()[threadIdx.x] = rope_angle<true>(position, turns, args->turn_factor);
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x + rows * (ROW_BYTES / 16); i < ROWS * (ROW_BYTES / 16);
         i += THREADS)
        ((uint4 *)(shared_memory() + RING_BYTES))[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < ROWS)
        shared_factors()[threadIdx.x] = 1;
}

// --- a tile ----------------------------------------------------------------------------------------

DEVICE void tiles_walk(const struct weft__attention_device_args *args, struct ring *ring,
                       const struct place *at, int32_t tile, int32_t warp, int32_t lane,
                       struct state *state)
{
    uint32_t parity = 0;
#pragma unroll 1
    for (int32_t slot = 0; tile < ring->end; tile += WARPS) {
        uint8_t *from = shared_memory() + warp * WARP_BYTES + slot * STAGE_BYTES;
        const int32_t key0 = at->seq.begin + tile * KEYS;
        float score[1][KEYS / 8][4] = {};
        barrier_wait(ring->barriers + 8 * slot, parity);
        tile_mend(ring, at, from, key0, lane);
        tile_scores(shared_address(shared_memory() + RING_BYTES), NULL, from, lane, score);
        tile_log2(args, at, key0, lane, score[0]);
        tile_weights(state, score[0]);
        tile_values(from, lane, score, state);
        __syncwarp();
        ring_ask(args, ring, at, warp, lane);
        if (++slot == WEFT_STAGES)
            slot = 0, parity ^= 1;
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    weft_attention_token(const __grid_constant__ struct weft__attention_device_args args)
{
    __shared__ uint64_t barriers[WARPS][WEFT_STAGES];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    const int32_t rank = WEFT_SPLITS > 1 ? (int32_t)cluster_rank() : 0;
    let_next_start();
    const int32_t *pages = pages_of(&args, (int32_t)blockIdx.y);
    const int32_t first = first_pages(&args, lane);
    const double turns = turns_ask(&args);
    const struct place at = place_of_block(&args, rank);
    const struct rows rows = rows_of(&args, &at);
    if (at.seq.items == 0) { // padding of a batch
        wait_for_previous();
        return;
    }
    struct ring ring = {shared_address(barriers[warp]),
                        at.seq.lengths.kv_len - 1,
                        at.tile + warp,
                        at.tile + at.left,
                        0,
                        pages,
                        0};
    if (lane < WEFT_STAGES)
        barrier_init(ring.barriers + 8 * lane, 1);
    if (lane == WEFT_STAGES)
        barrier_init(shared_address(pieces_barrier(warp)), 1);
    barrier_init_end();
    __syncwarp();
    pieces_expect(rows.count, rank, warp, lane);
    ring_first_page(&ring, &args, &at, first, lane);
#pragma unroll 1
    for (int32_t i = 0; i < WEFT_STAGES; i++)
        ring_ask(&args, &ring, &at, warp, lane);
    rows_prepare(&args, ring.fresh, rows.count, turns);
    if (WEFT_SPLITS > 1)
        cluster_arrive(); // the block is there and may be sent pieces
    __syncthreads();
    wait_for_previous();
    const int32_t fresh = ring.fresh - (at.seq.begin + at.tile * KEYS); // of the block's keys
    rows_load(&args, &at, rows, fresh >= 0 && fresh < at.left * KEYS, pages, warp, lane);
    struct state state;
    state_begin(&state);
    __syncthreads();
    tiles_walk(&args, &ring, &at, at.tile + warp, warp, lane, &state);
    __syncwarp();
    if (__syncthreads_or(state_store(&state, warp, lane, rows.count)))
        item_again(&args, &at, rows, at.left);
    if (WEFT_SPLITS > 1)
        cluster_wait();
    pieces_send(rows, rank, warp, lane);
    pieces_end(&args, &at, rows, rank, warp, lane);
}
