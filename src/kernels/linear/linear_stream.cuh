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
// and calls stream_run() with a function that multiplies a tile.
//
// Function constants: WEFT_WARPS, WEFT_TEAM (powers of two; the same with a split or pairs), WEFT_STAGES, WEFT_SPLIT, WEFT_GATE (0 none, 1 SiLU,
// 2 GELU, 3 GELU by tanh, 4 clamped), WEFT_EXPERTS (weights of many experts, each with rows of X of its own: the blocks of a blockIdx.y have a share of
// one expert's; its bits: 2 rows of X are weighed, 4 something is added, 8 the function is of one matrix alone), WEFT_LONG_X (0, 1, 2: how much of a row of X a thread asks for at once; short rows want short text), WEFT_COLS (of a row of X, whole tiles; 0: what the
// arguments say), WEFT_LATE (the next launch starts when this one has X),
// WEFT_TWIN (0; 2, 4: slots of the ring have tiles of so many row blocks, which are a group's), WEFT_TURN (likewise of the two slots of
// the ring, of two each), WEFT_ROUND (result leaves as int8), WEFT_PAIR (likewise), WEFT_Y_DTYPE (1 f32, 2 f16, 3 bf16).
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
    SLOT_BLOCKS = WEFT_TWIN ? WEFT_TWIN : 1, // row blocks of a slot, one behind the other
    STEP_SLOTS = WEFT_TURN ? 2 : 1,          // slots of the same columns, one behind the other
    OUT_BLOCKS = WEFT_TWIN                  ? WEFT_TWIN * STEP_SLOTS
                 : WEFT_ROUND && !WEFT_PAIR ? 2
                                            : 1,
    MATRICES = JOINS ? 2 : 1,
    GROUP_BLOCKS = OUT_BLOCKS * MATRICES,
    GROUP_STEPS = GROUP_BLOCKS / SLOT_BLOCKS / STEP_SLOTS,
    DELIVERIES = OUT_BLOCKS == 4 ? 2 : 1, // of 32 outputs
    SUM_STRIDE = COLUMNS == 1 ? 16 : 20,  // floats; 20 keeps a warp's stores in different banks
    TEAMS = WEFT_WARPS / WEFT_TEAM,
    SUM_BLOCK = WEFT_TEAM * COLUMNS * SUM_STRIDE,
    ALL_BUT_ONE = WEFT_STAGES > 1 ? WEFT_STAGES - 1 : 1, // slots of a warp's ring
    RING_BYTES = WEFT_WARPS * WEFT_STAGES * SLOT_BYTES,
    TEAM_SUMS = 2 * GROUP_BLOCKS * SUM_BLOCK,
    SUMS_BYTES = TEAMS * TEAM_SUMS * 4,
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
    int32_t first, step;              // turns first, first + step, ...
    int32_t whole, turns;             // WEFT_TURN: turns that have a group each, and all
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

// A block's teams take turns first, first + step, ..., each a group. WEFT_TURN: as many groups as blocks have each the same number of; of those
// that are left, a half each, so that no block has a group more than another.
struct turn {
    int32_t group, half;
    bool is_half;
};

DEVICE int32_t turns_of(const struct stream *s, const struct weft__linear_device_args *args)
{
    return WEFT_TURN ? s->turns : args->num_groups;
}

DEVICE struct turn turn_of(const struct stream *s, int32_t number)
{
    struct turn turn = {number, 0, false};
    if (WEFT_TURN && number >= s->whole) {
        const int32_t at = number - s->whole;
        turn.group = s->whole + at / 2, turn.half = at % 2, turn.is_half = true;
    }
    return turn;
}

DEVICE void next_row_block(struct stream *s)
{
    if (++s->block == GROUP_STEPS)
        s->block = 0, s->group += s->step;
}

// Goes on to the row block that the next tile belongs to, if there is one.
DEVICE void stream_find(struct stream *s, const struct weft__linear_device_args *args)
{
#pragma unroll 1
    while (!ONE_EACH && s->tile >= s->tiles && s->group < turns_of(s, args)) {
        s->base = next_base(s->base, s->tiles);
        s->tile = (s->warp - s->base) & (WEFT_TEAM - 1);
        next_row_block(s);
    }
    if (s->group >= turns_of(s, args))
        return;
    const struct turn turn = turn_of(s, s->group);
    const int32_t part = JOINS ? s->block % MATRICES : group_part(args, turn.group);
    int32_t row_block = (turn.group - args->part[part].first_group) * OUT_BLOCKS + 2 * turn.half +
                        s->block / MATRICES;
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
    const int32_t blocks = (int32_t)gridDim.x / WEFT_SPLIT;
    s->first = (int32_t)blockIdx.x / WEFT_SPLIT + team_of_thread() * blocks,
    s->step = blocks * TEAMS;
    s->whole = args->num_groups / blocks * blocks;
    s->turns = 2 * args->num_groups - s->whole;
    s->group = s->first < turns_of(s, args) ? s->first : turns_of(s, args);
    s->block = s->base = 0, s->tile = s->warp;
    stream_find(s, args);
}

// Asks for the warp's next tile, into a slot; an empty request keeps the count of requests.
DEVICE void stream_ask(struct stream *s, const struct weft__linear_device_args *args, int32_t slot)
{
    if (s->group < turns_of(s, args)) {
        if (!WEFT_TURN || slot == 0 || s->group < s->whole)
            tile_copy(&s->source, shared_ring() + slot * SLOT_BYTES, s->lane);
        if (WEFT_TURN && slot == 0) {
            source_below(&s->source, 1);
        } else if (ONE_EACH) {
            next_row_block(s);
            stream_find(s, args);
        } else {
            if (WEFT_TURN)
                source_below(&s->source, -1);
            source_next(&s->source);
            s->tile += WEFT_TEAM;
            if (s->tile >= s->tiles)
                stream_find(s, args);
        }
    }
    copy_group_end();
}

// The slots of the ring that were held back for X.
DEVICE void stream_ask_rest(struct stream *s, const struct weft__linear_device_args *args)
{
#pragma unroll 1
    for (int32_t slot = ALL_BUT_ONE; slot < WEFT_STAGES; slot++)
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

// Several rows of X whose results leave as numbers: a warp delivers two rows at once, a half of its lanes each.
enum { ROWS_AT_ONCE = COLUMNS > 1 && OUT_BLOCKS == 1 && !WEFT_ROUND ? 2 : 1 };

// The first of the rows of X, as the lane sees it, that a warp delivers in turn k, and its place among a row's outputs.
DEVICE int32_t row_delivered(const struct stream *s, int32_t k)
{
    const int32_t at = s->warp + k * WEFT_TEAM;
    return ROWS_AT_ONCE == 2 ? 2 * at + s->lane / 16 : at;
}

DEVICE int32_t output_of_lane(const struct stream *s)
{
    return ROWS_AT_ONCE == 2 ? s->lane % 16 : s->lane;
}

// The dot product of row `lane` % 16 of block `block` with row n of X: all warps' sums in the order of
// the tiles, warp `base` had the first.
DEVICE float stream_sum(const struct stream *s, const float *sums, int32_t block, int32_t n,
                        int32_t base)
{
    // both halves of the warp help where they have a row together
    const int32_t shares = OUT_BLOCKS == 1 && ROWS_AT_ONCE == 1 ? 2 : 1;
    const float *at = sums + block * SUM_BLOCK + n * SUM_STRIDE + s->lane % 16;
    float total = 0;
#pragma unroll
    for (int32_t rank = 0; rank < WEFT_SPLIT; rank++)
#pragma unroll 8
        for (int32_t j = shares == 2 ? s->lane / 16 : 0; j < WEFT_TEAM; j += shares) {
            const float *one = at + ((base + j) & (WEFT_TEAM - 1)) * COLUMNS * SUM_STRIDE;
            total += WEFT_SPLIT > 1 ? cluster_load(one, (uint32_t)rank) : *one;
        }
    return shares == 2 ? total + __shfl_xor_sync(0xffffffffu, total, 16) : total;
}

// What an output needs besides its sums, of row n of the block's rows of X: asked for while the sums are made.
// (The biases of a gate are not: few models have any, and registers are scarce there.)
struct delivery {
    float bias, residual, weight; // weight: of the next norm
};

DEVICE const float *part_bias(const struct stream *s, const struct weft__linear_device_part *part)
{
    return WEFT_EXPERTS ? part->bias + (int64_t)s->expert * part->rows : part->bias;
}

DEVICE struct delivery delivery_of(const struct stream *s,
                                   const struct weft__linear_device_args *args, int32_t group,
                                   int32_t n, int32_t half)
{
    const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
    const int32_t output = output_of_lane(s) + (DELIVERIES > 1 ? half * 32 : 0);
    int32_t row = (group - part->first_group) * OUT_BLOCKS * 16 + output;
    struct delivery d = {};
    d.weight = 1.0f;
    if (WEFT_ROUND && WEFT_PAIR && args->next_weight && n < s->batch)
        d.weight = args->next_weight[group / 2 * 32 + s->lane] + args->next_weight_plus;
    if (n >= s->batch || row >= part->rows || output >= 16 * OUT_BLOCKS)
        return d;
    if (!JOINS && part->bias)
        d.bias = part_bias(s, part)[row];
    if (args->residual)
        d.residual =
            element<WEFT_Y_DTYPE>(args->residual, y_row(s, n) * args->residual_stride + row);
    if (WEFT_ROUND && !WEFT_PAIR && args->next_weight)
        d.weight = args->next_weight[row] + args->next_weight_plus;
    return d;
}

#if WEFT_ROUND && WEFT_PAIR

// Of row n: 16 results of the other block, each with the turn that it is of.
DEVICE uint64_t *shared_pair(int32_t n)
{
    return (uint64_t *)(shared_memory() + RING_BYTES + SUMS_BYTES + RMS_BYTES + PLACES_BYTES +
                        PARTS_BYTES) +
           n * 16;
}

DEVICE void pair_begin()
{
    for (int32_t i = (int32_t)threadIdx.x; i < COLUMNS * 16; i += THREADS)
        *(shared_pair(0) + i) = 0;
    cluster_barrier();
}

// The block that has the turn rounds what both have. The other's next results come when this one has taken these: it
// sends its own to the other in between.
DEVICE bool pair_takes(uint32_t turn)
{
    return turn % 2 == cluster_rank();
}

DEVICE void pair_send(const struct stream *s, int32_t n, float out, uint32_t turn)
{
    if (!pair_takes(turn) && s->lane < 16)
        cluster_send(shared_pair(n) + s->lane, cluster_rank() ^ 1, out, turn);
}

DEVICE void pair_round(const struct stream *s, uint8_t *rounded, int32_t rows, int32_t group,
                       int32_t n, float out, float weight, uint32_t turn)
{
    if (!pair_takes(turn))
        return;
    const int32_t row = group / 2 * 32 + s->lane;
    float other = cluster_receive(shared_pair(n) + s->lane % 16, turn);
    out = __shfl_sync(0xffffffffu, out, s->lane % 16);
    round_results(rounded, rows, row, s->lane,
                  s->lane / 16 == (int32_t)cluster_rank() ? out : other, weight);
}

#endif

// Row n of the block's rows of Y for the group's outputs; a whole warp, each half its own n where that delivers two. turn: of the block's groups, from 1.
// bases: see stream_sum, four bits of each block of the group.
DEVICE void stream_deliver(const struct stream *s, const struct weft__linear_device_args *args,
                           const float *sums, int32_t group, int32_t n, uint32_t bases,
                           const struct delivery *with, uint32_t turn, int32_t half)
{
    (void)turn;
    const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
    const int32_t output = output_of_lane(s) + (DELIVERIES > 1 ? half * 32 : 0);
    int32_t row = (group - part->first_group) * OUT_BLOCKS * 16 + output;
    const int64_t at = y_row(s, ROWS_AT_ONCE == 2 ? min(n, s->batch - 1) : n);
    float value[MATRICES];
#if WEFT_EXPERTS & 2
    const float weight = share_weight(&args->experts, (int32_t)at);
#endif
#pragma unroll
    for (int32_t m = 0; m < MATRICES; m++) {
        float total = stream_sum(s, sums, m, n, (int32_t)(bases >> 4 * m & 15));
        if (OUT_BLOCKS > 1) {
            const int32_t b = MATRICES + m;
            float second = stream_sum(s, sums, b, n, (int32_t)(bases >> 4 * b & 15));
            total = s->lane < 16 ? total : second;
        }
#if WEFT_EXPERTS > 1
        value[m] = args->norm ? shared_rms()[n] * total : total;
#if WEFT_EXPERTS & 4
        if (args->experts.adapted[m] && row < part->rows)
            value[m] += args->experts.adapted[m][at * part->rows + row];
#endif
#if WEFT_EXPERTS & 2
        value[m] *= weight;
#endif
        value[m] = part[m].alpha * value[m] + with->bias;
#else
        value[m] = part[m].alpha * (args->norm ? shared_rms()[n] * total : total) + with->bias;
#endif
        if (JOINS && part[m].bias && row < part->rows)
            value[m] += part_bias(s, &part[m])[row];
    }
#if WEFT_GATE == 4
    float out =
        gated_clamped(value[0], value[1], args->experts.clamp_limit, args->experts.clamp_slope);
#else
    float out = gated<WEFT_GATE>(value[0], JOINS ? value[MATRICES - 1] : 1.0f) + with->residual;
#endif
    const bool mine = row < part->rows && output < 16 * OUT_BLOCKS && n < s->batch;
#if WEFT_ROUND
    const float stored = part->y ? as_stored<WEFT_Y_DTYPE>(out) : out;
    uint8_t *rounded = (uint8_t *)args->rounded + at * weft__linear_rounded_stride(part->rows);
#if WEFT_PAIR
    pair_send(s, n, stored, turn);
#endif
#endif
    if (part->y && mine)
        set_element<WEFT_Y_DTYPE>(part->y, at * part->y_stride + row, out);
#if WEFT_ROUND && WEFT_PAIR
    pair_round(s, rounded, part->rows, group, n, stored, with->weight, turn);
#elif WEFT_ROUND
    round_results(rounded, part->rows, row, s->lane, stored, with->weight);
#endif
}

// Norms. Squares of X are added up on the way: a warp of a team keeps those of rows warp, warp + WEFT_TEAM, ..., and
// delivers these rows.
enum { ROWS_OF_WARP = (COLUMNS + WEFT_TEAM - 1) / WEFT_TEAM };

// One row of X of known columns: its sums of squares are asked for together with X and added up behind it, by a warp that does
// not deliver where the barrier before a delivery is everybody's.
enum {
    SQUARES =
        X_ROUNDED && COLUMNS == 1 && WEFT_COLS <= 8192 ? (WEFT_COLS / 32 + WARP - 1) / WARP : 0,
    NORM_NUMBERS = SQUARES ? SQUARES : ROWS_OF_WARP,
    NORM_WARP = SQUARES && TEAMS == 1 ? WEFT_TEAM - 1 : 0,
};

#if X_ROUNDED

// A lane's part of the sums that lie beside a rounded X.
DEVICE void norm_ask(const struct stream *s, const struct weft__linear_device_args *args,
                     float square[NORM_NUMBERS])
{
    if (SQUARES) {
        const bool asks = args->norm && s->warp == NORM_WARP;
        const int64_t stride = weft__linear_rounded_stride(columns_of(args));
        const float *squares =
            round_squares((uint8_t *)args->x + x_row(s, 0) * stride, columns_of(args)) + s->lane;
#pragma unroll
        for (int32_t j = 0; j < SQUARES; j++)
            square[j] =
                asks && s->lane + j * WARP < WEFT_COLS / 32 ? __ldcg(squares + j * WARP) : 0.0f;
        return;
    }
    enum { AT_ONCE = WEFT_LONG_X ? 4 : 1 };
#pragma unroll
    for (int32_t k = 0; k < ROWS_OF_WARP; k++) {
        int32_t n = s->warp + k * WEFT_TEAM;
        square[k] = 0;
        if (!args->norm || n >= s->batch)
            continue;
        const float *squares = round_squares(
            (uint8_t *)args->x + x_row(s, n) * weft__linear_rounded_stride(columns_of(args)),
            columns_of(args));
#pragma unroll 1
        for (int32_t i = s->lane; i < columns_of(args) / 32; i += AT_ONCE * WARP) {
            float part[AT_ONCE];
#pragma unroll
            for (int32_t j = 0; j < AT_ONCE; j++)
                part[j] =
                    i + j * WARP < columns_of(args) / 32 ? __ldcg(squares + i + j * WARP) : 0.0f;
#pragma unroll
            for (int32_t j = 0; j < AT_ONCE; j++)
                square[k] += part[j];
        }
    }
}

#else

// Squares of numbers, by thread, become sums of warps.
DEVICE float *norm_parts()
{
    return (float *)(shared_memory() + RING_BYTES + SUMS_BYTES + RMS_BYTES + PLACES_BYTES);
}

// The thread's share of row n; with columns split over a cluster it has seen only some of them.
DEVICE void norm_part(const struct stream *s, const struct weft__linear_device_args *args,
                      int32_t n, float square)
{
    if (!args->norm)
        return;
    if (WEFT_SPLIT > 1) {
        square = 0;
        for (int32_t i = (int32_t)threadIdx.x; i < columns_of(args); i += THREADS) {
            float x = element<WEFT_X_DTYPE>(args->x, x_row(s, n) * args->x_stride + i);
            square += x * x;
        }
    }
    square = warp_sum(square, 32);
    if (s->lane == 0)
        norm_parts()[n * WEFT_WARPS + warp_of_thread()] = square;
}

// What column i of X is multiplied by as it is read.
DEVICE float norm_factor(const struct weft__linear_device_args *args, int32_t i)
{
    return args->norm_weight ? args->norm_weight[i] + args->norm_weight_plus : 1.0f;
}

// The same of columns i .. i + 3, i a multiple of 4, the first `count` of which are there.
DEVICE float4 norm_factors(const struct weft__linear_device_args *args, int32_t i, int32_t count)
{
    if (!args->norm_weight)
        return make_float4(1, 1, 1, 1);
    float4 w = count >= 4 && fours_aligned<DTYPE_F32>(args->norm_weight, 0)
                   ? four_elements<DTYPE_F32>(args->norm_weight, i)
                   : first_elements<DTYPE_F32>(args->norm_weight, i, count);
    const float plus = args->norm_weight_plus;
    return make_float4(w.x + plus, w.y + plus, w.z + plus, w.w + plus);
}

#endif

// 1/rms of the rows that a warp of the first team delivers.
DEVICE void norm_store(const struct stream *s, const struct weft__linear_device_args *args,
                       float square[NORM_NUMBERS])
{
#pragma unroll
    for (int32_t k = 0; k < ROWS_OF_WARP; k++) {
        int32_t n = NORM_WARP ? 0 : s->warp + k * WEFT_TEAM;
        if (NORM_WARP ? s->warp != NORM_WARP : n >= s->batch)
            break;
#pragma unroll
        for (int32_t j = 1; j < SQUARES; j++)
            square[0] += square[j];
#if !X_ROUNDED
        square[k] = s->lane < WEFT_WARPS ? norm_parts()[n * WEFT_WARPS + s->lane] : 0.0f;
#endif
        float total = warp_sum(square[k], 32);
        if (s->lane == 0)
            shared_rms()[n] = 1.0f / sqrtf(total / (float)columns_of(args) + args->norm_eps);
    }
}

// For all teams; after a barrier since X was read.
DEVICE void norm_settle(const struct stream *s, const struct weft__linear_device_args *args,
                        float square[NORM_NUMBERS])
{
    if (!args->norm)
        return;
    if (TEAMS == 1 || team_of_thread() == 0)
        norm_store(s, args, square);
    if (TEAMS == 1)
        __syncwarp();
    else
        __syncthreads();
}

// Constants that are read late come into L2 while the launch before still runs.
DEVICE void stream_prefetch(const struct stream *s, const struct weft__linear_device_args *args)
{
    if (!X_ROUNDED && args->norm_weight)
        for (int32_t i = (int32_t)threadIdx.x * 32; i < columns_of(args); i += THREADS * 32)
            prefetch_l2(args->norm_weight + i);
    if (threadIdx.x < WARP && s->first < args->num_groups) {
        const struct weft__linear_device_part *part = &args->part[group_part(args, s->first)];
        int32_t row = (s->first - part->first_group) * OUT_BLOCKS * 16;
        if (s->lane < MATRICES && part[s->lane].bias)
            prefetch_l2(part[s->lane].bias + row);
        if (WEFT_ROUND && args->next_weight && s->lane == 2)
            prefetch_l2(args->next_weight + row);
    }
}

#endif
