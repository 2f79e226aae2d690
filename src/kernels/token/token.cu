// SPDX-License-Identifier: MIT
// All layers of a dense model for one token of one sequence as one launch: from the first layer's queries, key and value to what
// the last layer leaves, or to the logits. A block an SM, all there at once, each with its part of every matrix; what they hand one another goes
// through L2 as words that say by themselves that they are there.
//
//      asks        weights and keys in the order of their use --> ring --> multiply, attend
//      multiply    rows of words from all SMs --> X; tiles times X --> sums in shared memory
//      delivers    sums --> results --> words to all SMs
//
// Results are those of the launches that it takes the place of, to the bit. NOTES.md says what it costs and why it is built so.
#include <stdint.h>

#define PLAIN        (WEFT_FORMAT == 2 || WEFT_FORMAT == 3) // WEFT__TOKEN_PLAIN: rows of numbers
#define WEFT_CACHE   WEFT_KV_DTYPE
#define WEFT_SCALED  0
#define WEFT_CODES   0
#define WEFT_BOXES   1
#define WEFT_X_DTYPE 1
#define WEFT_Y_DTYPE 1
#define WEFT_PARTS   1
#define WEFT_ALIBI   0
#define WEFT_RING    0
#define WEFT_SCATTER 0
#define WEFT_SPARSE  0
#define WEFT_APPEND  1
#define WEFT_ROUNDED 1
#define WEFT_WARPS   16
#define WEFT_BLOCKS  1
#define WEFT_ROUND   0
#define WEFT_GATE    0
#define WEFT_COLS    256 // rows of whole tiles
#define ACCUMULATORS 2
#define STATE_DIM    (WEFT_HEAD_DIM / 2) // of a warp: two have a state together
#define STATE_EIGHTS (WEFT_Q_HEADS / WEFT_KV_HEADS > 8 ? 2 : 1)

// Of attention.
enum {
    HEAD = WEFT_HEAD_DIM,
    DIM = HEAD,
    ROWS = 16,
    WARPS = 8,
    KEYS = 16,
    PAGE = WEFT_PAGE,
    ROW_BYTES = DIM * 2 + 16,
    PLANE_BYTES = KEYS * HEAD * 2,
    PART_BYTES = ROWS * ROW_BYTES,
    STATE_FLOATS = DIM + 4, // acc, largest, sum; padded
    KEEPS_QUERIES = 0,
    SCORE_STEPS = DIM > 128 ? 2 : 8,
};

// Of linear_few_one.cuh: registers are there for whole tiles, which come one by one.
enum { ONE_EACH = 1, SLOT_BLOCKS = 1 };
#if PLAIN
#define TILE_BYTES(pairs) WEFT__TOKEN_PLAIN_TILE_BYTES
#else
#define TILE_SLOT TILE_BYTES(4)
#endif

static __device__ __forceinline__ float *shared_state(int32_t warp, int32_t row, int32_t rows);

#include "src/kernels/attention/attention_fresh.cuh"
#include "src/kernels/attention/attention_piece.cuh"
#include "src/kernels/attention/attention_tile.cuh"
#if !PLAIN
#include "src/kernels/cuda/types.cuh"
#include "src/kernels/token/token_second.cuh" // before that of most matrices
// clang-format off: names of the format are those of what comes last
#include "src/kernels/linear/linear_few_one.cuh"
#include "src/kernels/linear/linear_tile.cuh"
// clang-format on
#endif
#include "src/kernels/token/token_shared.cuh"

DEVICE float *shared_factors()
{
    return shared_rest()->factors;
}

DEVICE float2 *shared_angles()
{
    return shared_rest()->angles;
}

// In the place of the row of O, which comes when all have been read.
DEVICE float *shared_state(int32_t warp, int32_t row, int32_t rows)
{
    return (float *)shared_row(O) + (warp * rows + row) * STATE_FLOATS;
}

#include "src/kernels/attention/attention_one.cuh"
#include "src/kernels/cuda/wgmma.cuh"
#if PLAIN
#include "src/kernels/token/token_plain.cuh"
#endif
#include "src/kernels/token/token_ask.cuh"
#include "src/kernels/token/token_attend.cuh"
#include "src/kernels/token/token_deliver.cuh"
#include "src/kernels/token/token_multiply.cuh"
#if WEFT_LOGITS
#include "src/kernels/token/token_logits.cuh"
#endif

static_assert(WEFT__TOKEN_KEYS_FIT(SLOT, HEAD), "a tile of keys and values has a slot");
static_assert(DEPTH >= TEAMS + FLIGHT && DEPTH <= WEFT__TOKEN_MOST_SLOTS,
              "a slot's parity says which time it is");
static_assert(sizeof(struct shared) <= WEFT__TOKEN_SHARED_BYTES, "what the host gives");

DEVICE void barriers_begin()
{
    struct shared *s = shared_rest();
    for (int32_t i = 0; i < DEPTH; i++) {
        barrier_init(shared_address(s->full + i), 1);
        barrier_init(shared_address(s->empty + i), READERS);
    }
    for (int32_t i = 0; i < PLACES; i++) {
        barrier_init(shared_address(s->summed + i), MULTIPLIERS);
        barrier_init(shared_address(s->taken + i), 1);
    }
    barrier_init(shared_address(&s->begun), WARP);
    barrier_init_end();
}

// What does not change from layer to layer and is made of nothing that launches before leave.
DEVICE void block_begin()
{
    struct shared *s = shared_rest();
    const int32_t i = (int32_t)threadIdx.x, item = item_of_block(ITEMS);
    if (i == 0) {
        barriers_begin();
        s->again = 0;
        s->ends = INT32_MAX;
        s->attends = item >= 0;
        s->split = max(item, 0) % WEFT_SPLITS;
    }
    if (i < 2 * KINDS)
        s->share[i / 2][i % 2] = share_begin(units_of(i / 2), (int32_t)blockIdx.x + i % 2);
    for (int32_t at = i; at < PART_BYTES / 16; at += WEFT__TOKEN_THREADS)
        ((uint4 *)s->queries)[at] = make_uint4(0, 0, 0, 0);
    if (i < ROWS)
        s->factors[i] = 1;
    __syncthreads();
}

// What is, by a warp that has nothing else to do: others wait for it where they want to know (text_wait()).
DEVICE void text_begin(const struct weft__token_args *args, int32_t lane)
{
    struct shared *s = shared_rest();
    const int32_t item = max(item_of_block(ITEMS), 0);
    wait_for_previous();
    if (lane == 0) {
        s->launch = __ldcg(args->launches);
        s->place = place_of_part(&args->attention, item / WEFT_SPLITS, item % WEFT_SPLITS,
                                 WEFT_SPLITS, 0, 1);
        s->fresh_page = __ldcg(s->place.seq.pages + (s->place.seq.lengths.kv_len - 1) / PAGE);
    }
    __syncwarp();
#pragma unroll 1
    for (int32_t i = lane; WEFT_ROPE && i < WEFT_ROTARY / 2; i += WARP)
        s->angles[i] =
            rope_angle<true>(s->place.seq.lengths.kv_len - 1, __ldcg(args->attention.turns + i),
                             args->attention.turn_factor);
    barrier_arrive(shared_address(&s->begun));
}

extern "C" __global__ void __launch_bounds__(WEFT__TOKEN_THREADS, 1)
    weft_token(const __grid_constant__ struct weft__token_args args)
{
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP;
    let_next_start(); // on an SM whose block has ended: all blocks are there
    block_begin();
    if (warp < MULTIPLIERS) {
        registers_take<104>();
        multiply_all(&args, warp, lane);
        return;
    }
    registers_give<64>();
    if (warp == MULTIPLIERS) {
        struct delivery d = {0, 0};
        deliver_all(&args, &d, lane);
#if WEFT_LOGITS
        logits_deliver(&args, &d, lane);
#endif
        if (blockIdx.x == 0 && lane == 0)
            *args.launches =
                shared_rest()->launch + 1; // everybody has read it: there are results of all
    } else if (warp == MULTIPLIERS + 1) {
        if (LOOKS_AHEAD ? elected() : lane == 0) {
            struct asker a = asker_make();
            ask_all(&args, &a);
#if WEFT_LOGITS
            logits_ask(&args, &a);
#endif
        }
    } else if (warp == MULTIPLIERS + 2) {
        heads_deliver_all(&args, lane);
#if WEFT_LOGITS
        part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE); // the other warp delivers logits
#endif
    } else {
        text_begin(&args, lane);
    }
}
