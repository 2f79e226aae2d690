// SPDX-License-Identifier: MIT
// The warps that multiply. Two warps, a team, have a slot of the ring, two tiles each of it; teams take slots in turn, so that
// tiles t, t + 16 ... of a row come to the same warp in their order, as in a launch of sixteen warps a row.
#ifndef WEFT_KERNELS_TOKEN_MULTIPLY_CUH
#define WEFT_KERNELS_TOKEN_MULTIPLY_CUH

#include "src/kernels/token/token_attend.cuh"

// Two tiles of a slot: held in registers, so that the slot can be asked for anew before they are multiplied, or where they lie.
#if PLAIN
#define HOLDS 0
#else
#define HOLDS (TILE_IN_PLACE && FORMAT_IS_F16_PER_32)
#endif

// A slot of the ring and the parity of its time.
struct turn_of_slot {
    int32_t at;
    uint32_t parity;
};

DEVICE struct turn_of_slot turn_of(uint32_t seq)
{
    const struct turn_of_slot turn = {(int32_t)(seq % DEPTH), seq / DEPTH & 1};
    return turn;
}

// The next of the team.
DEVICE void turn_next(struct turn_of_slot *turn)
{
    turn->at += TEAMS;
    if (turn->at >= DEPTH)
        turn->at -= DEPTH, turn->parity ^= 1;
}

struct tiles {
#if HOLDS
    uint4 codes[2][4];
    uint2 scales[2];
#endif
    int32_t at; // their slot
};

// A team's are one behind the other, tile i of each warp.
DEVICE const uint8_t *tile_at(int32_t slot, int32_t i, int32_t half)
{
    return shared_memory() + slot * SLOT + (TEAM_WARPS * i + half) * TILE;
}

DEVICE void slot_give_back(int32_t slot, uint32_t of_all_loads, int32_t lane)
{
    loads_end(of_all_loads);
    __syncwarp();
    if (lane == 0)
        barrier_arrive_as<READERS / TEAM_WARPS>(shared_address(shared_rest()->empty + slot));
}

// Waits for a slot; half: which of the team the warp is.
DEVICE void tiles_take(struct tiles *t, struct turn_of_slot turn, int32_t half, int32_t lane)
{
    t->at = turn.at;
    barrier_wait(shared_address(shared_rest()->full + turn.at), turn.parity);
#if HOLDS
    uint32_t all = 0;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *tile = tile_at(turn.at, i, half);
#pragma unroll
        for (int32_t p = 0; p < 4; p++)
            t->codes[i][p] = *(const uint4 *)(tile + p * PAIR_LOW + lane * 16);
        t->scales[i] = *(const uint2 *)(tile + 4 * PAIR_LOW + lane % 4 * 64 + lane / 4 * 8);
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        all ^= t->scales[i].x ^ t->codes[i][0].x ^ t->codes[i][1].x ^ t->codes[i][2].x ^
               t->codes[i][3].x;
    slot_give_back(turn.at, all, lane);
#else
    (void)half, (void)lane;
#endif
}

DEVICE void tiles_end(const struct tiles *t, int32_t lane, const float sum[2][2])
{
#if !HOLDS
    slot_give_back(t->at,
                   float_bits(sum[0][0]) ^ float_bits(sum[0][1]) ^ float_bits(sum[1][0]) ^
                       float_bits(sum[1][1]),
                   lane);
#else
    (void)t, (void)lane, (void)sum;
#endif
}

#if PLAIN // token_plain.cuh
#elif HOLDS

// What a tile is multiplied by. Columns of B are the x of their units in products of their own pair, and zeros in others, so that all
// products of a tile add up in two chains and lane (r, c) has its units' at its end: 8 zeros for two tiles instead of 12 choices a tile.
struct tile_x {
    uint2 b[4];       // of pair p
    float scale[2];   // of a unit, by what its products are too large
    int32_t start[2]; // of its sum
};

DEVICE struct tile_x tile_x_of(const uint8_t *row, int32_t cols, int32_t tile, int32_t lane)
{
    struct tile_x x;
    const uint32_t l = (uint32_t)lane;
    const uint2 b = one_column(row + tile * 256, (int32_t)(l / 4), (int32_t)(l % 4), true);
    const uint4 own = ((const uint4 *)(row + cols))[(uint32_t)tile * 4 + l % 4];
#pragma unroll
    for (uint32_t p = 0; p < 4; p++)
        x.b[p] = make_uint2(l / 8 == p ? b.x : 0, l / 8 == p ? b.y : 0);
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const struct x_meta meta = x_meta_of(own, h);
        x.scale[h] = meta.scale * (1.0f / (float)ONE_FACTOR(h, 0));
        x.start[h] = one_start(meta, ONE_OFFSET(h, 0), 0);
    }
    return x;
}

// acc += tile i of the two times a tile of X.
DEVICE void tile_add(const struct tiles *t, int32_t i, int32_t half, const struct tile_x *x,
                     int32_t lane, float acc[2])
{
    int32_t low[4] = {x->start[0], x->start[1], x->start[0], x->start[1]}, high[4];
    (void)half, (void)lane;
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        const uint4 w = t->codes[i][p];
        const uint32_t a[4] = {~(w.x & 0x0f0f0f0fu), ~(w.y & 0x0f0f0f0fu), ~(w.z & 0x0f0f0f0fu),
                               ~(w.w & 0x0f0f0f0fu)};
        mma_s8_k32(low, a, x->b[p].x, x->b[p].y);
    }
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
        high[k] = low[k];
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        const uint32_t a[4] = {t->codes[i][p].x, t->codes[i][p].y, t->codes[i][p].z,
                               t->codes[i][p].w};
        mma_u8_k32(high, a, x->b[p].x, x->b[p].y);
    }
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const float2 scale = f16x2_float2(h ? t->scales[i].y : t->scales[i].x);
#pragma unroll
        for (int32_t j = 0; j < 2; j++) {
            const float dot = __int_as_float(h ? high[2 * j + 1] : low[2 * j]) - MAGIC;
            acc[j] = fmaf(dot * x->scale[h], j ? scale.y : scale.x, acc[j]);
        }
    }
}

#else

#define tile_x one_x

DEVICE struct one_x tile_x_of(const uint8_t *row, int32_t cols, int32_t tile, int32_t lane)
{
    return one_x_of(row, row + cols, tile, lane);
}

DEVICE void tile_add(const struct tiles *t, int32_t i, int32_t half, const struct tile_x *x,
                     int32_t lane, float acc[2])
{
    one_multiply(x, tile_at(t->at, i, half), 4, lane, acc);
}

#endif

#if !PLAIN

// X of both tiles of a slot: of column `first` of two blocks of rows, or of two columns of one.
struct slot_x {
    struct tile_x of[2];
};

DEVICE void slot_x_load(struct slot_x *x, bool paired, const uint8_t *row, int32_t cols,
                        int32_t first, int32_t lane)
{
    const int32_t second = first + TEAM_WARPS;
    if (first * 256 < cols)
        x->of[0] = tile_x_of(row, cols, first, lane);
    if (!paired && second * 256 < cols)
        x->of[1] = tile_x_of(row, cols, second, lane);
}

// x: loaded before, or (`fresh`) here. Where tiles are not held, registers are there for one X at a time.
DEVICE void tiles_add(const struct tiles *t, bool paired, bool fresh, int32_t half,
                      struct slot_x *x, const uint8_t *row, int32_t cols, int32_t first,
                      int32_t lane, float sum[2][2])
{
    const int32_t second = paired ? first : first + TEAM_WARPS;
    if (fresh && HOLDS)
        slot_x_load(x, paired, row, cols, first, lane);
    if (first * 256 < cols) {
        if (!HOLDS)
            x->of[0] = tile_x_of(row, cols, first, lane);
        tile_add(t, 0, half, &x->of[0], lane, sum[0]);
    }
    if (second * 256 < cols) {
        if (!HOLDS)
            x->of[0] = tile_x_of(row, cols, second, lane);
        tile_add(t, 1, half, &x->of[HOLDS && !paired ? 1 : 0], lane, sum[1]);
    }
}

#endif

// Lane (r, c) gets sum c % 2 of tile c / 2, over the four lanes of r in the order of warp_sum().
DEVICE float sums_transpose(const float sum[2][2], int32_t lane)
{
    const bool second = lane & 2, odd = lane & 1;
    float mine[2];
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        mine[i] = (second ? sum[1][i] : sum[0][i]) +
                  __shfl_xor_sync(0xffffffffu, second ? sum[0][i] : sum[1][i], 2);
    return (odd ? mine[1] : mine[0]) + __shfl_xor_sync(0xffffffffu, odd ? mine[0] : mine[1], 1);
}

// Units are numbered through the launch: place and parity of the next.
struct turn_of_sums {
    uint32_t next;
};

DEVICE void sums_leave(struct turn_of_sums *turn, const float sum[2][2], int32_t warp, int32_t lane)
{
    struct shared *s = shared_rest();
    const float mine = sums_transpose(sum, lane);
    const uint32_t place = turn->next % PLACES;
    if (turn->next >= PLACES)
        barrier_wait(shared_address(s->taken + place), (turn->next / PLACES - 1) & 1);
#if PLAIN
    s->parts[place][warp][plain_row(lane) + 8 * (lane % 4)] = mine;
#else
    s->parts[place][warp][lane / 4 + 8 * (lane % 4)] = mine;
#endif
    __syncwarp();
    if (lane == 0)
        barrier_arrive(shared_address(s->summed + place));
    turn->next++;
}

DEVICE int32_t units_of_block(int32_t kind)
{
    return shared_rest()->share[kind][1] - shared_rest()->share[kind][0];
}

#if PLAIN

// The row of X of a matrix, from the words of all SMs.
DEVICE void x_take(const struct weft__token_args *args, int32_t kind, int32_t layer, uint32_t turn)
{
    if (kind == DOWN)
        numbers_take<WIDE, false>(args, WEFT__TOKEN_ROW_down, turn, NULL);
    else if (kind == O)
        numbers_take<ATTENDED, false>(args, WEFT__TOKEN_ROW_attended, turn, NULL);
    else
        numbers_take<EMBED, true>(
            args, kind == UP ? WEFT__TOKEN_ROW_up : WEFT__TOKEN_ROW_qkv, turn,
            kind == UP ? args->layers[layer].up_norm : args->layers[layer - 1].next_norm);
}

// The tiles of units of a matrix that the team has: `next` is its next slot of the matrix, `turn` where that is.
template <bool PAIRED>
DEVICE void units_multiply(int32_t kind, int32_t next, struct turn_of_slot turn,
                           struct turn_of_sums *sums, int32_t own_warp, int32_t own_lane)
{
    const struct work w = work_of(kind);
    const int32_t warp = computed_here(own_warp), lane = computed_here(own_lane);
    const int32_t units = units_of_block(kind), half = warp % TEAM_WARPS;
    const float *row = (const float *)shared_row(kind);
    struct tiles tiles;
    int32_t at = next; // of the unit
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            const int32_t column = slot_column(PAIRED, at) + half;
            tiles_take(&tiles, turn, half, lane);
            plain_add<PAIRED>(tile_at(turn.at, 0, half), row, column, column + 16 < w.tiles, lane,
                              sum);
            turn_next(&turn);
            tiles_end(&tiles, lane, sum);
        }
        sums_leave(sums, sum, warp, lane);
    }
}

DEVICE uint32_t matrix_multiply(const struct weft__token_args *args, int32_t kind_before,
                                int32_t layer, uint32_t turn, uint32_t seq,
                                struct turn_of_sums *sums, int32_t warp, int32_t lane)
{
    const int32_t next = (warp / TEAM_WARPS - (int32_t)seq) & (TEAMS - 1);
    x_take(args, kind_before, layer, turn);
    const int32_t kind =
        computed_here(kind_before); // what follows from it is not kept while X is taken
    if (kind == UP)
        units_multiply<true>(UP, next, turn_of(seq + next), sums, warp, lane);
    else
        units_multiply<false>(kind, next, turn_of(seq + next), sums, warp, lane);
    return seq + units_of_block(kind) * work_of(kind).slots;
}

#else

// The row of X of a matrix, from the words of all SMs.
DEVICE void x_take(const struct weft__token_args *args, int32_t kind, uint32_t turn, int32_t warp,
                   int32_t lane)
{
    const int32_t row = kind == QKV  ? WEFT__TOKEN_ROW_qkv
                        : kind == O  ? WEFT__TOKEN_ROW_attended
                        : kind == UP ? WEFT__TOKEN_ROW_up
                                     : WEFT__TOKEN_ROW_down;
    if (warp == 0 && lane == 0)
        arrivals_wait(args, row, turn, (uint32_t)work_of(kind).cols / 32);
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
    uint8_t *to = shared_row(kind);
    const uint8_t *words = (const uint8_t *)args->rows[row];
    if (kind == DOWN)
        row_take<WIDE, false>(words, turn, to);
    else if (kind == O)
        row_take<ATTENDED, false>(words, turn, to);
    else
        row_take<EMBED, true>(words, turn, to);
    part_sync<MULTIPLYING + WARP>(ROW_IS_THERE);
}

// The tiles of units of a matrix that the team has: `next` is its next slot of the matrix, `turn` where that is; `ahead`: it has been
// taken. `fixed`: slots of a unit divide the teams, so that a warp has the same columns of all units, and X of them is loaded once.
DEVICE void units_multiply(int32_t kind, bool paired, bool fixed, int32_t next,
                           struct turn_of_slot turn, bool ahead, struct tiles *tiles,
                           struct turn_of_sums *sums, int32_t warp, int32_t lane)
{
    const struct work w = work_of(kind);
    const int32_t units = units_of_block(kind), half = warp % TEAM_WARPS;
    const int32_t step = paired ? TEAM_WARPS : SLOT_TILES; // columns from slot to slot
    const uint8_t *row = shared_row(kind);
    struct slot_x x = {};
    int32_t at = next; // of the unit
    if (fixed)
        slot_x_load(&x, paired, row, w.cols, step * (next & (w.slots - 1)) + half, lane);
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            if (!ahead)
                tiles_take(tiles, turn, half, lane);
            ahead = false;
            turn_next(&turn);
            tiles_add(tiles, paired, !fixed, half, &x, row, w.cols, step * at + half, lane, sum);
            tiles_end(tiles, lane, sum);
        }
        sums_leave(sums, sum, warp, lane);
    }
}

// Do slots of a unit of columns of the stream divide the teams?
enum {
    PAIR_SLOTS = (EMBED / 256 + TEAM_WARPS - 1) / TEAM_WARPS,
    ROW_SLOTS = (EMBED / 256 + SLOT_TILES - 1) / SLOT_TILES,
    PAIRS_FIXED = TEAMS % PAIR_SLOTS == 0,
    QKV_FIXED = TEAMS % ROW_SLOTS == 0,
};

// A matrix, whose slots begin at `seq`: the row of X comes while the first tiles do.
DEVICE uint32_t matrix_multiply(const struct weft__token_args *args, int32_t kind_before, int32_t,
                                uint32_t turn, uint32_t seq, struct turn_of_sums *sums,
                                int32_t warp, int32_t lane)
{
    const int32_t next = (warp / TEAM_WARPS - (int32_t)seq) & (TEAMS - 1);
    const struct turn_of_slot slot = turn_of(seq + next);
    const bool ahead = HOLDS && next < units_of_block(kind_before) * work_of(kind_before).slots;
    struct tiles tiles = {}; // nothing of the matrix before is kept in registers until here
    if (ahead)
        tiles_take(&tiles, slot, warp % TEAM_WARPS, lane);
    x_take(args, kind_before, turn, warp, lane);
    const int32_t kind =
        computed_here(kind_before); // what follows from it is not kept while X is taken
    if (HOLDS && kind == QKV)       // texts of their own
        units_multiply(QKV, false, QKV_FIXED, next, slot, ahead, &tiles, sums, warp, lane);
    else if (HOLDS && PAIRS_FIXED && ATTENDED == EMBED && kind != DOWN)
        units_multiply(kind, true, true, next, slot, ahead, &tiles, sums, warp, lane);
    else
        units_multiply(kind, HOLDS || kind != QKV, false, next, slot, ahead, &tiles, sums, warp,
                       lane);
    return seq + units_of_block(kind) * work_of(kind).slots;
}

#endif

DEVICE void multiply_all(const struct weft__token_args *args, int32_t own_warp, int32_t own_lane)
{
    const struct shared *s = shared_rest();
    struct turn_of_sums sums = {0};
    uint32_t seq = 0;
    int32_t kind = O;
#pragma unroll 1
    for (int32_t l = 0; l < args->num_layers; l += kind == QKV) {
        const uint32_t turn = s->launch * args->num_layers + l + 1;
        const int32_t lane = computed_here(own_lane), warp = computed_here(own_warp);
        if (kind == O && s->attends) { // between Q, K, V and O
            const struct new_rows rows = {(uint16_t *)args->layers[l].keys,
                                          (uint16_t *)args->layers[l].values};
            if (l > 0 && warp == 0 && lane == 0)
                arrivals_wait(args, WEFT__TOKEN_ROW_heads, turn, HEAD_ROWS / 16);
            part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
            attend(args, rows, l, turn, seq, warp, lane);
            seq += s->place.left;
        }
        seq = matrix_multiply(args, kind, l, turn, seq, &sums, warp, lane);
        kind = (kind + 1) % KINDS;
    }
}

#endif
