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
#define HOLDS       (TILE_IN_PLACE && (FORMAT_IS_F16_PER_32 || WEFT_FORMAT == FORMAT_Q4_K))
#define HOLDS_SUPER (HOLDS && TILE_SUPER)
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

// Of a lane's two units in rows r and r + 8.
#if HOLDS_SUPER
struct held_scales {
    uint32_t d[2];    // of a row, two f16: of scales, of minima
    uint32_t fine[2]; // bytes: scales, minima
};
#else
struct held_scales {
    uint32_t unit[2]; // two f16: rows r and r + 8
};
#endif

#if HOLDS

// `loaded`: what was read, each load in one number.
DEVICE struct held_scales held_scales_load(const uint8_t *tile, int32_t lane, uint32_t *loaded)
{
    const int32_t r = lane / 4, c = lane % 4;
    struct held_scales s;
#if HOLDS_SUPER
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint4 w = *(const uint4 *)(tile + 4 * PAIR_LOW + (r + 8 * i) * 16);
        const uint32_t scale =
            c < 2 ? w.y & 0x3f3f3f3fu : (w.w & 0x0f0f0f0fu) | (w.y >> 2 & 0x30303030u);
        const uint32_t min =
            c < 2 ? w.z & 0x3f3f3f3fu : (w.w >> 4 & 0x0f0f0f0fu) | (w.z >> 2 & 0x30303030u);
        s.d[i] = w.x;
        s.fine[i] = byte_permute(scale, min, c % 2 ? 0x7632 : 0x5410);
        *loaded ^= w.x;
    }
#else
    const uint2 w = *(const uint2 *)(tile + 4 * PAIR_LOW + c * 64 + r * 8);
    s.unit[0] = w.x, s.unit[1] = w.y;
    *loaded ^= w.x;
#endif
    return s;
}

#endif

struct tiles {
#if HOLDS
    uint4 codes[2][4];
    struct held_scales scales[2];
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

DEVICE void slot_wait_turn(struct turn_of_slot turn)
{
    barrier_wait(shared_address(shared_rest()->full + turn.at), turn.parity);
}

// Waits for a slot; half: which of the team the warp is.
DEVICE void tiles_take(struct tiles *t, struct turn_of_slot turn, int32_t half, int32_t lane)
{
    t->at = turn.at;
    slot_wait_turn(turn);
#if HOLDS
    uint32_t all = 0;
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint8_t *tile = tile_at(turn.at, i, half);
#pragma unroll
        for (int32_t p = 0; p < 4; p++)
            t->codes[i][p] = *(const uint4 *)(tile + p * PAIR_LOW + lane * 16);
        t->scales[i] = held_scales_load(tile, lane, &all);
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        all ^= t->codes[i][0].x ^ t->codes[i][1].x ^ t->codes[i][2].x ^ t->codes[i][3].x;
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
enum { B_KEPT = HOLDS_SUPER ? 1 : 4 }; // 1: registers are scarce, zeros are put in for every tile
struct tile_x {
    uint2 b[B_KEPT];  // of pair p
    float scale[2];   // of a unit; where there are no minima, by what its products are too large
    int32_t start[2]; // of its sum; where there are minima, what they are multiplied by
};

DEVICE uint2 b_of_pair(uint2 b, uint32_t p, uint32_t lane)
{
    return make_uint2(lane / 8 == p ? b.x : 0, lane / 8 == p ? b.y : 0);
}

DEVICE struct tile_x tile_x_of(const uint8_t *row, int32_t cols, int32_t tile, int32_t lane)
{
    struct tile_x x;
    const uint32_t l = (uint32_t)lane;
    const uint2 b = one_column(row + tile * 256, (int32_t)(l / 4), (int32_t)(l % 4), true);
    const uint4 own = ((const uint4 *)(row + cols))[(uint32_t)tile * 4 + l % 4];
#pragma unroll
    for (uint32_t p = 0; p < B_KEPT; p++)
        x.b[p] = B_KEPT == 1 ? b : b_of_pair(b, p, l);
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        const struct x_meta meta = x_meta_of(own, h);
        x.scale[h] = TILE_MIN ? meta.scale : meta.scale * (1.0f / (float)ONE_FACTOR(h, 0));
        x.start[h] = one_start(meta, ONE_OFFSET(h, 0), 0);
    }
    return x;
}

static_assert(!TILE_MIN || (ONE_OFFSET(0, 0) == 1 && ONE_OFFSET(1, 0) == 1 && SIXTEENS == 1),
              "products start from the sum of x");

// acc += tile i of the two times a tile of X.
DEVICE void tile_add(const struct tiles *t, int32_t i, int32_t half, const struct tile_x *x,
                     int32_t lane, float acc[2])
{
    int32_t low[4] = {x->start[0], x->start[1], x->start[0], x->start[1]}, high[4];
    const uint32_t l = (uint32_t)computed_here(lane);
    uint2 b[4];
    (void)half;
#pragma unroll
    for (uint32_t p = 0; p < 4; p++)
        b[p] = B_KEPT == 1 ? b_of_pair(x->b[0], p, l) : x->b[p % B_KEPT];
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        const uint4 w = t->codes[i][p];
        const uint32_t a[4] = {~(w.x & 0x0f0f0f0fu), ~(w.y & 0x0f0f0f0fu), ~(w.z & 0x0f0f0f0fu),
                               ~(w.w & 0x0f0f0f0fu)};
        mma_s8_k32(low, a, b[p].x, b[p].y);
    }
#pragma unroll
    for (int32_t k = 0; k < 4; k++)
        high[k] = low[k];
#pragma unroll
    for (int32_t p = 0; p < 4; p++) {
        const uint32_t a[4] = {t->codes[i][p].x, t->codes[i][p].y, t->codes[i][p].z,
                               t->codes[i][p].w};
        mma_u8_k32(high, a, b[p].x, b[p].y);
    }
#pragma unroll
    for (int32_t h = 0; h < 2; h++)
#pragma unroll
        for (int32_t j = 0; j < 2; j++) {
            const float dot = __int_as_float(h ? high[2 * j + 1] : low[2 * j]) - MAGIC;
#if HOLDS_SUPER
            const float2 d = f16x2_float2(t->scales[i].d[j]);
            const uint32_t fine = t->scales[i].fine[j];
            const float by = x->scale[h] * (1.0f / (float)ONE_FACTOR(h, 0));
            const float of_x = (__int_as_float(x->start[h]) - MAGIC) * x->scale[h];
            acc[j] = fmaf(dot * by, times_byte(d.x, fine, h, 0), acc[j]);
            acc[j] = fmaf(of_x, times_byte(-d.y, fine, 2 + h, 0), acc[j]);
#else
            const float2 scale = f16x2_float2(t->scales[i].unit[h]);
            acc[j] = fmaf(dot * x->scale[h], j ? scale.y : scale.x, acc[j]);
#endif
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

// Columns between a warp's two tiles of a slot.
DEVICE int32_t columns_apart(enum form form)
{
    return form == PAIRS ? 0 : form == EIGHTS ? 8 : TEAM_WARPS;
}

// The team's first column of slot `at` of a unit.
DEVICE int32_t column_of(enum form form, int32_t at)
{
    return form == ROWS_ALONE ? at * SLOT_TILES
           : form == EIGHTS   ? at % EIGHT_SLOTS * TEAM_WARPS
                              : at * TEAM_WARPS;
}

DEVICE void slot_x_load(struct slot_x *x, enum form form, const uint8_t *row, int32_t cols,
                        int32_t first, int32_t lane)
{
    const int32_t second = first + columns_apart(form);
    if (first * 256 < cols)
        x->of[0] = tile_x_of(row, cols, first, lane);
    if (form != PAIRS && second * 256 < cols)
        x->of[1] = tile_x_of(row, cols, second, lane);
}

// x: loaded before, or (`fresh`) here. Where tiles are not held, registers are there for one X at a time.
DEVICE void tiles_add(const struct tiles *t, enum form form, bool fresh, int32_t half,
                      struct slot_x *x, const uint8_t *row, int32_t cols, int32_t first,
                      int32_t lane, float sum[2][2])
{
    const int32_t second = first + columns_apart(form);
    if (fresh && HOLDS)
        slot_x_load(x, form, row, cols, first, lane);
    if (first * 256 < cols) {
        if (!HOLDS)
            x->of[0] = tile_x_of(row, cols, first, lane);
        tile_add(t, 0, half, &x->of[0], lane, sum[0]);
    }
    if (form == EIGHTS)
        sum[1][0] = sum[0][0], sum[1][1] = sum[0][1];
    if (second * 256 < cols) {
        if (!HOLDS)
            x->of[0] = tile_x_of(row, cols, second, lane);
        tile_add(t, 1, half, &x->of[HOLDS && form != PAIRS ? 1 : 0], lane, sum[1]);
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

// What is carried from matrix to matrix stays in shared memory: registers are scarce in between.
DEVICE uint2 walked_of(int32_t warp)
{
    const volatile uint2 *at = &shared_rest()->walked[warp];
    return make_uint2(at->x, at->y);
}

// By a whole warp, whose lanes have all read what was there before any writes.
DEVICE void walked_set(int32_t warp, uint2 walked)
{
    volatile uint2 *at = &shared_rest()->walked[warp];
    __syncwarp(); // what was made of it is made
    at->x = walked.x, at->y = walked.y;
    __syncwarp();
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
        numbers_take<EMBED, true>(args, kind == UP ? WEFT__TOKEN_ROW_up : WEFT__TOKEN_ROW_qkv, turn,
                                  kind == UP ? args->layers[layer].up_norm
                                             : args->layers[layer - 1].next_norm);
}

DEVICE void held_take(struct held *held, struct turn_of_slot turn, int32_t half, int32_t lane)
{
    slot_wait_turn(turn);
    slot_give_back(
        turn.at, held_load(held, tile_at(turn.at, 0, half), tile_at(turn.at, 1, half), lane), lane);
}

// The tiles of units of a matrix that the team has: `next` is its next slot of the matrix, `turn` where that is; `ahead`: it has been
// taken.
template <bool PAIRED>
DEVICE void units_multiply(int32_t kind, int32_t next, struct turn_of_slot turn, bool ahead,
                           struct held *held, struct turn_of_sums *sums, int32_t own_warp,
                           int32_t own_lane)
{
    const struct work w = work_of(kind);
    const int32_t warp = computed_here(own_warp), lane = computed_here(own_lane);
    const int32_t units = units_of_block(kind), half = warp % TEAM_WARPS;
    const float *row = (const float *)shared_row(kind);
    int32_t at = next; // of the unit
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            const int32_t column = slot_column(PAIRED ? PAIRS : ROWS_ALONE, at) + half;
            if (!ahead)
                held_take(held, turn, half, lane);
            ahead = false;
            turn_next(&turn);
            plain_add<PAIRED>(held, row, column, column + 16 < w.tiles, lane, sum);
        }
        sums_leave(sums, sum, warp, lane);
    }
}

DEVICE void matrix_multiply(const struct weft__token_args *args, int32_t step, uint32_t turn,
                            int32_t warp, int32_t lane)
{
    const uint32_t seq = walked_of(warp).x;
    const int32_t next = (warp / TEAM_WARPS - (int32_t)seq) & (TEAMS - 1);
    const bool ahead = next < units_of_block(step & 3) * work_of(step & 3).slots;
    struct held held = {};
    if (ahead)
        held_take(&held, turn_of(seq + next), warp % TEAM_WARPS, lane);
    x_take(args, step & 3, step >> 2, turn);
    const int32_t kind =
        computed_here(step) & 3; // what follows from it is not kept while X is taken
    const struct turn_of_slot slot = turn_of(walked_of(warp).x + next);
    struct turn_of_sums sums = {walked_of(warp).y};
    if (kind == UP)
        units_multiply<true>(UP, next, slot, ahead, &held, &sums, warp, lane);
    else
        units_multiply<false>(kind, next, slot, ahead, &held, &sums, warp, lane);
    walked_set(warp, make_uint2(walked_of(warp).x + units_of_block(kind) * work_of(kind).slots,
                                sums.next));
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
    part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
}

// The tiles of units of a matrix that the team has: `next` is its next slot of the matrix, `turn` where that is; `ahead`: it has been
// taken. `fixed`: slots of a unit divide the teams, so that a warp has the same columns of all units, and X of them is loaded once.
DEVICE void units_multiply(int32_t kind, enum form form, int32_t units, bool fixed, int32_t next,
                           struct turn_of_slot turn, bool ahead, struct tiles *tiles,
                           struct turn_of_sums *sums, int32_t warp, int32_t lane)
{
    const struct work w = work_of(kind);
    const int32_t half = warp % TEAM_WARPS;
    const uint8_t *row = shared_row(kind);
    struct slot_x x = {};
    int32_t at = next; // of the unit
    if (fixed)
        slot_x_load(&x, form, row, w.cols, column_of(form, next & (w.slots - 1)) + half, lane);
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            if (!ahead)
                tiles_take(tiles, turn, half, lane);
            ahead = false;
            turn_next(&turn);
            tiles_add(tiles, form, !fixed, half, &x, row, w.cols, column_of(form, at) + half, lane,
                      sum);
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
    UP_EIGHTS = WEFT_EIGHTS >> UP & 1,
};
static_assert(!(WEFT_EIGHTS & ((1 << KINDS) - 1)) ||
                  ((WEFT_EIGHTS & ((1 << KINDS) - 1)) == 1 << UP && TEAMS == 2 * EIGHT_SLOTS &&
                   EMBED > 8 * 256 && EMBED <= 16 * 256),
              "a warp has one slot of a unit in chains of eight");

// The team's next slot where a matrix's begin at `seq`.
DEVICE int32_t next_of_team(uint32_t seq, int32_t warp)
{
    return (warp / TEAM_WARPS - (int32_t)seq) & (TEAMS - 1);
}

#if WEFT_SECOND

// Units of the second format of a matrix whose others have been multiplied: a tile of a slot each warp.
DEVICE void second_multiply(int32_t kind, bool last, int32_t warp, int32_t lane)
{
    const struct second_work w = second_work_of(kind, last);
    const int32_t half = warp % TEAM_WARPS, units = second_units(kind, true);
    const uint8_t *row = shared_row(kind);
    const uint2 walked = walked_of(warp);
    struct turn_of_sums sums = {walked.y};
    int32_t at = next_of_team(walked.x, warp); // of the unit
    struct turn_of_slot turn = turn_of(walked.x + at);
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            const bool below = at >= w.block_slots; // of the second block
            const int32_t slot = below ? at - w.block_slots : at;
            const int32_t column = w.columns ? slot : 2 * slot + half;
            const uint8_t *tile =
                shared_memory() + turn.at * SLOT + half * second_format::SECOND_TILE_BYTES;
            float acc[2] = {below ? sum[1][0] : sum[0][0], below ? sum[1][1] : sum[0][1]};
            slot_wait_turn(turn);
            if (column < w.tiles) {
                const second_format::one_x x =
                    second_format::one_x_of(row, row + w.cols, column, lane);
                second_format::one_multiply(&x, tile, 4, lane, acc);
            }
            slot_give_back(turn.at, float_bits(acc[0]) ^ float_bits(acc[1]), lane);
            turn_next(&turn);
#pragma unroll
            for (int32_t i = 0; i < 2; i++) {
                sum[0][i] = below ? sum[0][i] : acc[i];
                sum[1][i] = below ? acc[i] : sum[1][i];
            }
        }
        sums_leave(&sums, sum, warp, lane);
    }
    walked_set(warp, make_uint2(walked_of(warp).x + units * w.slots, sums.next));
}

#endif

// Of the SM's units of a matrix, those that are not of the second format.
DEVICE int32_t first_units(const struct weft__token_args *args, int32_t kind, int32_t layer)
{
    return units_of_block(kind) - second_units(kind, is_second(args, kind, layer));
}

// A matrix: the row of X comes while the first tiles do.
DEVICE void matrix_multiply(const struct weft__token_args *args, int32_t step, uint32_t turn,
                            int32_t warp, int32_t lane)
{
    struct tiles tiles = {}; // nothing of the matrix before is kept in registers until here
    const uint32_t first = walked_of(warp).x;
    if (HOLDS && next_of_team(first, warp) <
                     first_units(args, step & 3, step >> 2) * work_of(step & 3).slots)
        tiles_take(&tiles, turn_of(first + next_of_team(first, warp)), warp % TEAM_WARPS, lane);
    x_take(args, step & 3, turn, warp, lane);
    const int32_t here = computed_here(step); // what follows from it is not kept while X is taken
    const int32_t kind = here & 3, layer = here >> 2, units = first_units(args, kind, layer);
    const uint2 walked = walked_of(warp);
    const int32_t next = next_of_team(walked.x, warp);
    const struct turn_of_slot slot = turn_of(walked.x + next);
    const bool ahead = HOLDS && next < units * work_of(kind).slots;
    struct turn_of_sums sums = {walked.y};
    if (HOLDS && kind == QKV) // texts of their own
        units_multiply(QKV, ROWS_ALONE, units, QKV_FIXED, next, slot, ahead, &tiles, &sums, warp,
                       lane);
    else if (UP_EIGHTS && kind == UP)
        units_multiply(UP, EIGHTS, units, HOLDS, next, slot, ahead, &tiles, &sums, warp, lane);
    else if (HOLDS && PAIRS_FIXED && ATTENDED == EMBED && kind != DOWN)
        units_multiply(kind, PAIRS, units, true, next, slot, ahead, &tiles, &sums, warp, lane);
    else
        units_multiply(kind, HOLDS ? PAIRS : form_of(kind), units, false, next, slot, ahead, &tiles,
                       &sums, warp, lane);
    const int32_t now = computed_here(step); // these are not kept either
    walked_set(warp, make_uint2(walked_of(warp).x +
                                    first_units(args, now & 3, now >> 2) * work_of(now & 3).slots,
                                sums.next));
}

#endif

// In steps of one matrix, four a layer; the first layer has no Q, K, V.
DEVICE void multiply_all(const struct weft__token_args *args, int32_t own_warp, int32_t own_lane)
{
    const struct shared *s = shared_rest();
    walked_set(own_warp, make_uint2(0, 0));
#pragma unroll 1
    for (int32_t step = O; step < 4 * args->num_layers; step++) {
        const int32_t kind = step & 3, l = step >> 2;
        const uint32_t turn = s->launch * args->num_layers + l + 1;
        const int32_t lane = computed_here(own_lane), warp = computed_here(own_warp);
        if (kind == O && s->attends) { // between Q, K, V and O
            if (l > 0 && warp == 0 && lane == 0)
                arrivals_wait(args, WEFT__TOKEN_ROW_heads, turn, HEAD_ROWS / 16);
            part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
            attend(args, l, turn, walked_of(warp).x, warp, lane);
            const uint2 walked = walked_of(warp);
            walked_set(warp, make_uint2(walked.x + s->place.left, walked.y));
        }
        matrix_multiply(args, step, turn, warp, lane);
#if WEFT_SECOND
        if (is_second(args, computed_here(step) & 3, step >> 2))
            second_multiply(step & 3, step >> 2 == args->num_layers - 1, computed_here(own_warp),
                            computed_here(own_lane));
#endif
    }
}

#endif
