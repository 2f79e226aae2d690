// SPDX-License-Identifier: MIT
// The frame of the kernels for few rows of X: every SM streams tiles of 16 rows of W through rings in
// shared memory, one ring a warp, and keeps X.
//
// The warps of a block are teams of WEFT_TEAM, each with groups of its own. Rows of W are taken in groups: 16 outputs, 32 when the result leaves rounded, and of both matrices
// when a gate follows. With WEFT_PAIR the two blocks of a cluster have 16 of the 32 each, so that work divides more
// evenly; one of them, in turn, gets the other's results and rounds. The tiles of a team's groups are one long list; warp w of W takes tiles w, w + W,
// ..., so the memory never sees where a row ends. After a group the warps add up in shared memory and
// warp n delivers row n of Y while the others go on. With WEFT_SPLIT > 1 the blocks of a cluster share
// a group, each with a part of the columns.
//
// A kernel defines before it includes this: SLOT_BYTES, COLUMNS (rows of X per pass: 1, 4, 8, 16),
//   X_ROUNDED (1: X is int8 per 32; 0: numbers of WEFT_X_DTYPE), DELIVERY_EARLY (registers are left for it),
//   struct source, source_begin(source, args, part, row_block, tile, lane), source_next(source)   where a warp's tiles are
//   tile_copy(source, slot, lane)   asks for the tile
//   TABLES_LOAD, if anything        what else shared memory is to hold before the first tile
//   SUMS_SENT, if they are          blocks send each other sums: linear_sent.cuh
// and calls stream_run() with a function that multiplies a tile.
//
// Function constants: WEFT_WARPS, WEFT_TEAM (powers of two; the same with a split or pairs), WEFT_STAGES, WEFT_SPLIT, WEFT_GATE (0 none, 1 SiLU,
// 2 GELU, 3 GELU by tanh, 4 clamped), WEFT_EXPERTS (weights of many experts, each with rows of X of its own: the blocks of a blockIdx.y have a share of
// one expert's; its bits: 2 rows of X are weighed, 4 something is added, 8 the function is of one matrix alone), WEFT_LONG_X (0, 1, 2: how much of a row of X a thread asks for at once; short rows want short text), WEFT_COLS (of a row of X, whole tiles; 0: what the
// arguments say),
// WEFT_APART (sums of all tiles of a row block, up to sixteen, are added up in the order of tiles, as a team of sixteen does it),
// WEFT_TWIN (slots of the ring have tiles of two row blocks, groups 32 outputs), WEFT_ROUND (result leaves as int8), WEFT_PAIR (likewise), WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16).
#ifndef WEFT_KERNELS_LINEAR_STREAM_CUH
#define WEFT_KERNELS_LINEAR_STREAM_CUH

#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/warp.cuh"
#include "src/kernels/linear/linear_columns.cuh"
#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_share.cuh"

// Does the function join two matrices?
#define JOINS (WEFT_GATE && !(WEFT_EXPERTS & 8))

enum {
    THREADS = WEFT_WARPS * WARP,
    OUT_BLOCKS = WEFT_TWIN || (WEFT_ROUND && !WEFT_PAIR) ? 2 : 1,
    MATRICES = JOINS ? 2 : 1,
    GROUP_BLOCKS = OUT_BLOCKS * MATRICES,
    SLOT_BLOCKS = WEFT_TWIN ? 2 : 1, // row blocks of a slot, one behind the other
    GROUP_STEPS = GROUP_BLOCKS / SLOT_BLOCKS,
    SUM_STRIDE = COLUMNS == 1 ? 16 : 20, // floats; 20 keeps a warp's stores in different banks
    TEAMS = WEFT_WARPS / WEFT_TEAM,
    SUM_PLACES = WEFT_APART ? 16 : WEFT_TEAM, // of a row block
    SUM_BLOCK = SUM_PLACES * COLUMNS * SUM_STRIDE,
    ALL_BUT_ONE = WEFT_STAGES > 1 ? WEFT_STAGES - 1 : 1, // slots of a warp's ring
    RING_BYTES = WEFT_WARPS * WEFT_STAGES * SLOT_BYTES,
    TEAM_SUMS = 2 * GROUP_BLOCKS * SUM_BLOCK,
#ifdef SUMS_SENT
    SUMS_BYTES = WEFT__LINEAR_SENT_SUMS(MATRICES, WEFT_WARPS, COLUMNS, WEFT_SPLIT),
#else
    SUMS_BYTES = TEAMS * TEAM_SUMS * 4,
#endif
    RMS_BYTES = 64,
    PLACES_BYTES = WEFT_EXPERTS ? 128 : 0,
    PARTS_BYTES = X_ROUNDED ? 0 : COLUMNS * WEFT_WARPS * 4,
    PAIR_BYTES = WEFT_PAIR ? COLUMNS * 128 : 0,
#ifdef TABLE_IN_SHARED
    TABLE_BYTES = TABLE_IN_SHARED,
#else
    TABLE_BYTES = 0,
#endif
};

// One rounded row of X: places in the block are numbers without a sign, whose quotients are shifts. (More rows keep them with
// one: the others are short enough to be worked out anew for every tile, 358 instructions for 340 at q4_0, M=8.)
#define ONE_ROUNDED (COLUMNS == 1 && (X_ROUNDED || WEFT_ROUND_X))

DEVICE int32_t warp_of_thread()
{
    return ONE_ROUNDED ? (int32_t)(threadIdx.x / WARP) : (int32_t)threadIdx.x / WARP;
}

DEVICE int32_t lane_of_thread()
{
    return ONE_ROUNDED ? (int32_t)(threadIdx.x % WARP) : (int32_t)threadIdx.x % WARP;
}

// Shared memory: rings | sums | 1/rms of the rows of X | their places in X and Y (WEFT_EXPERTS) | squares of warps | results of the pair | table of points (WEFT_SPREAD) | X. Offsets instead of pointers in struct stream
// leave the compiler addresses of 32 bits.
DEVICE uint8_t *shared_memory()
{
    extern __shared__ __align__(128) uint8_t bytes[];
    return bytes;
}

DEVICE uint8_t *shared_ring()
{
    return shared_memory() + warp_of_thread() * (WEFT_STAGES * SLOT_BYTES);
}

DEVICE float *shared_sums()
{
    return (float *)(shared_memory() + RING_BYTES);
}

DEVICE float *shared_rms()
{
    return (float *)(shared_memory() + RING_BYTES + SUMS_BYTES);
}

// Of row n of the block's rows of X: the row of X, and COLUMNS further on that of Y.
DEVICE int32_t *shared_places()
{
    return (int32_t *)(shared_memory() + RING_BYTES + SUMS_BYTES + RMS_BYTES);
}

DEVICE uint8_t *shared_x()
{
    return shared_memory() + RING_BYTES + SUMS_BYTES + RMS_BYTES + PLACES_BYTES + PARTS_BYTES +
           PAIR_BYTES + TABLE_BYTES;
}

DEVICE uint8_t *shared_table()
{
    return shared_x() - TABLE_BYTES;
}

DEVICE int32_t team_of_thread()
{
    return ONE_ROUNDED ? (int32_t)(threadIdx.x / (WEFT_TEAM * WARP))
                       : (int32_t)threadIdx.x / (WEFT_TEAM * WARP);
}

struct stream {
    int32_t warp, lane;               // warp: of the team
    int32_t row0, batch;              // the rows of X that blocks of this blockIdx.y take
    int32_t expert;                   // WEFT_EXPERTS: whose weights these are
    int32_t tile0, tiles;             // the block's part of a row of W
    int32_t first, step;              // groups first, first + step, ...
    int32_t group, block, tile, base; // the next tile to ask for
    struct source source;             // where that tile is
};

// Where row n of the block's rows is in X, and in Y.
DEVICE int64_t x_row(const struct stream *s, int32_t n)
{
    return WEFT_EXPERTS ? shared_places()[n] : s->row0 + n;
}

DEVICE int64_t y_row(const struct stream *s, int32_t n)
{
    return WEFT_EXPERTS ? shared_places()[COLUMNS + n] : s->row0 + n;
}

DEVICE int32_t group_part(const struct weft__linear_device_args *args, int32_t group)
{
    int32_t part = 0;
    if (!JOINS)
#pragma unroll 1
        while (part + 1 < args->num_parts && group >= args->part[part + 1].first_group)
            part++;
    return part;
}

// The warp that takes the first tile of a row block, after that of the one before, of `tiles`. Small teams begin with
// their first warp: they have no registers for it, and few tiles to lose.
DEVICE int32_t next_base(int32_t base, int32_t tiles)
{
    const bool whole = WEFT_COLS && tiles % WEFT_TEAM == 0;
    return TEAMS == 1 && !whole ? (base + tiles) & (WEFT_TEAM - 1) : 0;
}

// Two row blocks at a time begin with the same warp.
static_assert(!WEFT_TWIN ||
                  (TEAMS > 1 && WEFT_COLS && WEFT_SPLIT == 1 && !WEFT_GATE && !WEFT_ROUND),
              "a twin's warps");

// A row block has a tile for every warp: the next tile is the same of the next row block.
enum { ONE_EACH = WEFT_COLS && WEFT_SPLIT == 1 && WEFT_COLS == WEFT_TEAM * 256 };

DEVICE void next_row_block(struct stream *s)
{
    if (++s->block == GROUP_STEPS)
        s->block = 0, s->group += s->step;
}

// Goes on to the row block that the next tile belongs to, if there is one.
DEVICE void stream_find(struct stream *s, const struct weft__linear_device_args *args)
{
#pragma unroll 1
    while (!ONE_EACH && s->tile >= s->tiles && s->group < args->num_groups) {
        s->base = next_base(s->base, s->tiles);
        s->tile = (s->warp - s->base) & (WEFT_TEAM - 1);
        next_row_block(s);
    }
    if (s->group >= args->num_groups)
        return;
    const int32_t part = JOINS ? s->block % MATRICES : group_part(args, s->group);
    int32_t row_block =
        (s->group - args->part[part].first_group) * OUT_BLOCKS + s->block / MATRICES;
    if (WEFT_EXPERTS)
        row_block += s->expert * (args->part[part].rows / 16);
    source_begin(&s->source, args, &args->part[part], row_block, s->tile0 + s->tile, s->lane);
}

#if WEFT_EXPERTS

// The share of a block's blockIdx.y: places of one expert; false when there are fewer shares.
DEVICE bool stream_share(struct stream *s, const struct weft__linear_experts *to)
{
    const struct share share = find_share(to, (int32_t)blockIdx.y, COLUMNS);
    const int32_t n = (int32_t)threadIdx.x;
    if (n < COLUMNS && share.count > 0) {
        const struct share_row row = share_row_of(to, &share, n);
        shared_places()[n] = row.x, shared_places()[COLUMNS + n] = row.y;
    }
    s->expert = share.expert, s->batch = share.count, s->row0 = 0;
    __syncthreads();
    return share.count > 0;
}

#endif

// (WEFT_EXPERTS: after stream_share())
DEVICE void stream_begin(struct stream *s, const struct weft__linear_device_args *args,
                         int32_t row_tiles)
{
    s->warp = warp_of_thread() % WEFT_TEAM, s->lane = lane_of_thread();
#if !WEFT_EXPERTS
    s->row0 = (int32_t)blockIdx.y * COLUMNS;
    s->batch = COLUMNS == 1 || args->batch - s->row0 >= COLUMNS ? COLUMNS : args->batch - s->row0;
#endif
    int32_t rank = WEFT_SPLIT > 1 ? (int32_t)cluster_rank() : 0;
    int32_t share = (row_tiles + WEFT_SPLIT - 1) / WEFT_SPLIT;
    s->tile0 = rank * share;
    s->tiles = row_tiles - s->tile0 < share ? row_tiles - s->tile0 : share;
    s->tiles = s->tiles < 0 ? 0 : s->tiles;
    if (WEFT_COLS &&
        WEFT_COLS % (256 * WEFT_SPLIT) == 0) // all blocks have as many, which is a constant
        s->tiles = share;
    const int32_t blocks = (int32_t)gridDim.x / WEFT_SPLIT;
    s->first = (int32_t)blockIdx.x / WEFT_SPLIT + team_of_thread() * blocks,
    s->step = blocks * TEAMS;
    s->group = s->first < args->num_groups ? s->first : args->num_groups;
    s->block = s->base = 0, s->tile = s->warp;
    stream_find(s, args);
}

// Asks for the warp's next tile, into a slot; an empty request keeps the count of requests.
DEVICE void stream_ask(struct stream *s, const struct weft__linear_device_args *args, int32_t slot)
{
    if (s->group < args->num_groups) {
        tile_copy(&s->source, shared_ring() + slot * SLOT_BYTES, s->lane);
        if (ONE_EACH) {
            next_row_block(s);
            stream_find(s, args);
        } else {
            source_next(&s->source);
            s->tile += WEFT_TEAM;
            if (s->tile >= s->tiles)
                stream_find(s, args);
        }
    }
    copy_group_end();
}

// The slots of the ring that were held back for X, of `asked` on.
DEVICE void stream_ask_rest(struct stream *s, const struct weft__linear_device_args *args,
                            int32_t asked = ALL_BUT_ONE)
{
#pragma unroll 1
    for (int32_t slot = asked; slot < WEFT_STAGES; slot++)
        stream_ask(s, args, slot);
}

// Of the warps of a team.
DEVICE void group_barrier()
{
    if (WEFT_SPLIT > 1)
        cluster_barrier();
    else if (TEAMS == 1)
        __syncthreads();
    else if (WEFT_TEAM == 1)
        __syncwarp();
    else
        part_sync<WEFT_TEAM * WARP>(1 + team_of_thread());
}

// Constants that are read late come into L2 while the launch before still runs.
DEVICE void stream_prefetch(const struct stream *s, const struct weft__linear_device_args *args)
{
    if (!X_ROUNDED && args->norm_weight)
        for (int32_t i = (int32_t)threadIdx.x * 32; i < columns_of(args); i += THREADS * 32)
            prefetch_l2(args->norm_weight + i);
    if (threadIdx.x < WARP && s->group < args->num_groups) {
        const struct weft__linear_device_part *part = &args->part[group_part(args, s->first)];
        int32_t row = (s->first - part->first_group) * OUT_BLOCKS * 16;
        if (s->lane < MATRICES && part[s->lane].bias)
            prefetch_l2(part[s->lane].bias + row);
        if (WEFT_ROUND && args->next_weight && s->lane == 2)
            prefetch_l2(args->next_weight + row);
    }
}

#endif
