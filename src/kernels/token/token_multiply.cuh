// SPDX-License-Identifier: MIT
// The warps that multiply. Two warps, a team, have a slot of the ring, two tiles each of it; teams take slots in turn, so that
// tiles t, t + 16 ... of a row come to the same warp in their order, as in a launch of sixteen warps a row.
#ifndef WEFT_KERNELS_TOKEN_MULTIPLY_CUH
#define WEFT_KERNELS_TOKEN_MULTIPLY_CUH

#include "src/kernels/token/token_tiles.cuh"

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

// Where the next unit's sums go, and the parity of that place's time. Carried from matrix to matrix as one word.
struct turn_of_sums {
    uint32_t place, parity;
};

DEVICE struct turn_of_sums sums_carried(uint32_t word)
{
    const struct turn_of_sums turn = {word >> 1, word & 1};
    return turn;
}

DEVICE uint32_t sums_carry(struct turn_of_sums turn)
{
    return turn.place << 1 | turn.parity;
}

DEVICE void sums_leave(struct turn_of_sums *turn, const float sum[2][2], int32_t warp, int32_t lane)
{
    struct shared *s = shared_rest();
    const float mine = sums_transpose(sum, lane);
    const uint32_t place = turn->place;
    barrier_wait(shared_address(s->taken + place),
                 turn->parity ^ 1); // at first the parity that barriers begin with
#if PLAIN
    s->parts[place][warp][plain_row(lane) + 8 * (lane % 4)] = mine;
#else
    s->parts[place][warp][lane / 4 + 8 * (lane % 4)] = mine;
#endif
    __syncwarp();
    if (lane == 0)
        barrier_arrive(shared_address(s->summed + place));
    if (++turn->place == PLACES)
        turn->place = 0, turn->parity ^= 1;
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
    struct turn_of_sums sums = sums_carried(walked_of(warp).y);
    if (kind == UP)
        units_multiply<true>(UP, next, slot, ahead, &held, &sums, warp, lane);
    else
        units_multiply<false>(kind, next, slot, ahead, &held, &sums, warp, lane);
    walked_set(warp, make_uint2(walked_of(warp).x + units_of_block(kind) * work_of(kind).slots,
                                sums_carry(sums)));
}

#else

// X of the first layer's Q, K and V, which a launch before has rounded: it lies as rows do here.
DEVICE void first_x_take(const struct weft__token_args *args)
{
    const int32_t i = (int32_t)threadIdx.x;
    static_assert(X_BYTES / 16 <= MULTIPLYING, "a piece a thread");
    wait_for_previous();
    if (i < X_BYTES / 16)
        ((uint4 *)shared_row(QKV))[i] = __ldcg((const uint4 *)args->first_x + i);
    part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
}

// The row of X of a matrix, from the words of all SMs.
DEVICE void x_take(const struct weft__token_args *args, int32_t kind, uint32_t turn, int32_t warp,
                   int32_t lane)
{
    const int32_t row = kind == QKV ? WEFT__TOKEN_ROW_qkv
                        : kind == O ? WEFT__TOKEN_ROW_attended
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
        slot_x_load(&x, form, b_kept(form, fixed), row, w.cols,
                    column_of(form, next & (w.slots - 1)) + half, lane);
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
        if (WEFT_LOGITS && kind == QKV && units == DRAWN) {
            if (!ahead)
                slot_wait_turn(turn);
            if (logits_end(u))
                break;
        }
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
};

// The team's next slot where a matrix's begin at `seq`.
DEVICE int32_t next_of_team(uint32_t seq, int32_t warp)
{
    return (warp / TEAM_WARPS - (int32_t)seq) & (TEAMS - 1);
}

#if WEFT_SECOND

// Is slot `at` of a unit one of the second of its two blocks?
DEVICE bool second_below(const struct second_work *w, int32_t at)
{
    return !w->columns && at >= w->block_slots;
}

// The column that a warp has of slot `at` of a unit.
DEVICE int32_t second_column(const struct second_work *w, int32_t at, bool below, int32_t half)
{
    const int32_t slot = w->columns ? at / 2 : below ? at - w->block_slots : at;
    return 2 * slot + half;
}

// What the sums of a block have become.
DEVICE void second_keep(float sum[2][2], bool below, const float acc[2])
{
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        sum[0][i] = below ? sum[0][i] : acc[i];
        sum[1][i] = below ? acc[i] : sum[1][i];
    }
}

#if SECOND_HOLDS

DEVICE const uint8_t *second_tile_at(int32_t slot, int32_t half)
{
    return shared_memory() + slot * SLOT + half * second_format::SECOND_TILE_BYTES;
}

// Takes the tile of a slot that has come.
DEVICE void second_take(uint4 of[2][4], int32_t slot, int32_t half, int32_t lane)
{
    slot_give_back(slot, second_format::held_tile_load(of, second_tile_at(slot, half), lane), lane);
}

// The team's first tile of a down that has the second format. False where there is none.
DEVICE bool second_take_first(const struct weft__token_args *args, int32_t step, uint4 held[2][4],
                              int32_t warp, int32_t lane)
{
    if ((step & 3) != DOWN || !is_second(args, DOWN, step >> 2))
        return false;
    const struct second_work w = second_work_of(DOWN, step >> 2 == args->num_layers - 1);
    const uint32_t seq = walked_of(warp).x;
    const int32_t next = next_of_team(seq, warp);
    if (next >= units_of_block(DOWN) * w.slots)
        return false;
    const struct turn_of_slot turn = turn_of(seq + next);
    slot_wait_turn(turn);
    second_take(held, turn.at, warp % TEAM_WARPS, lane);
    return true;
}

// Units of the second format of a matrix whose others have been multiplied: a tile of a slot each warp. `ahead`: the team's first has been
// taken. The next is taken, where it has come, before scales meet the products of this one.
DEVICE void second_multiply(int32_t kind, int32_t units, bool last, bool ahead, uint4 held[2][4],
                            int32_t warp, int32_t lane)
{
    const struct second_work w = second_work_of(kind, last);
    const int32_t half = warp % TEAM_WARPS;
    const uint8_t *row = shared_row(kind);
    const uint2 walked = walked_of(warp);
    struct turn_of_sums sums = sums_carried(walked.y);
    int32_t at = next_of_team(walked.x, warp); // of the unit
    struct turn_of_slot turn = turn_of(walked.x + at);
    int32_t left = units * w.slots - at;
    if (!ahead && left > 0) {
        slot_wait_turn(turn);
        second_take(held, turn.at, half, lane);
    }
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
        if (WEFT_LOGITS && units == DRAWN && logits_end(u)) // the team's next slot has come
            break;
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            const bool below = second_below(&w, at);
            const int32_t column = second_column(&w, at, below, half);
            float acc[2] = {below ? sum[1][0] : sum[0][0], below ? sum[1][1] : sum[0][1]};
            const second_format::held_x x =
                second_format::held_x_of(row, row + w.cols, min(column, w.tiles - 1), lane);
            int32_t dots[2][4];
            second_format::held_dots(held, &x, lane, dots);
            const uint32_t scales[2] = {held[1][2].x, held[1][2].y}, d = held[1][2].z;
            left -= TEAMS;
            turn_next(&turn);
            const bool more = left > 0;
            const bool early =
                more && barrier_ended(shared_address(shared_rest()->full + turn.at), turn.parity);
            if (early)
                second_take(held, turn.at, half, lane);
            if (column < w.tiles)
                second_format::held_sum(scales, d, &x, dots, acc);
            if (more && !early) {
                slot_wait_turn(turn);
                second_take(held, turn.at, half, lane);
            }
            second_keep(sum, below, acc);
        }
        sums_leave(&sums, sum, warp, lane);
    }
    walked_set(warp, make_uint2(walked_of(warp).x + units * w.slots, sums_carry(sums)));
}

#else

// Units of the second format of a matrix whose others have been multiplied: a tile of a slot each warp.
DEVICE void second_multiply(int32_t kind, int32_t units, bool last, int32_t warp, int32_t lane)
{
    const struct second_work w = second_work_of(kind, last);
    const int32_t half = warp % TEAM_WARPS;
    const uint8_t *row = shared_row(kind);
    const uint2 walked = walked_of(warp);
    struct turn_of_sums sums = sums_carried(walked.y);
    int32_t at = next_of_team(walked.x, warp); // of the unit
    struct turn_of_slot turn = turn_of(walked.x + at);
#pragma unroll 1
    for (int32_t u = 0; u < units; u++, at -= w.slots) {
        float sum[2][2] = {};
        if (WEFT_LOGITS && units == DRAWN) {
            slot_wait_turn(turn);
            if (logits_end(u))
                break;
        }
#pragma unroll 1
        for (; at < w.slots; at += TEAMS) {
            const bool below = second_below(&w, at);
            const int32_t column = second_column(&w, at, below, half);
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
            second_keep(sum, below, acc);
        }
        sums_leave(&sums, sum, warp, lane);
    }
    walked_set(warp, make_uint2(walked_of(warp).x + units * w.slots, sums_carry(sums)));
}

#endif

#endif

// What a warp knows of a matrix before its row of X is there. It lies in shared memory meanwhile: behind the row comes nothing but
// products, for every instruction there is waited for by all SMs, and finds its text cold.
struct plan {
    int32_t units, next;      // not of the second format; the team's next slot of them
    struct turn_of_slot slot; // where that is
    bool ahead, second;       // it is taken before; there are units of the second format
    uint2 walked;
};

DEVICE struct plan plan_make(const struct weft__token_args *args, int32_t step, int32_t warp)
{
    const int32_t kind = step & 3, layer = step >> 2;
    struct plan p;
    p.walked = walked_of(warp);
    p.second = is_logits(args, layer) ? WEFT_LOGITS_SECOND : is_second(args, kind, layer);
    p.units = is_logits(args, layer) ? (WEFT_LOGITS_SECOND ? 0 : DRAWN)
                                     : units_of_block(kind) - second_units(kind, p.second);
    p.next = next_of_team(p.walked.x, warp);
    p.slot = turn_of(p.walked.x + p.next);
    p.ahead = HOLDS && p.next < p.units * work_of(kind).slots;
    return p;
}

DEVICE void plan_keep(int32_t warp, const struct plan *p)
{
    const uint32_t own = (uint32_t)p->units | (uint32_t)p->second << 31;
    const uint32_t slot = (uint32_t)p->next | (uint32_t)p->slot.at << 16 | p->slot.parity << 30 |
                          (uint32_t)p->ahead << 31;
    *(volatile uint64_t *)&shared_rest()->plan[warp] = (uint64_t)slot << 32 | own;
}

// By a lane that kept it.
DEVICE struct plan plan_kept(int32_t warp)
{
    const uint64_t both = *(const volatile uint64_t *)&shared_rest()->plan[warp];
    const uint32_t own = (uint32_t)both, slot = (uint32_t)(both >> 32);
    const struct turn_of_slot at = {(int32_t)(slot >> 16 & 255), slot >> 30 & 1};
    const struct plan p = {
        (int32_t)(own & 0xffff),    (int32_t)(slot & 0xffff),        at,
        HOLDS && (slot >> 31) != 0, WEFT_SECOND && (own >> 31) != 0, walked_of(warp)};
    return p;
}

// A matrix: the row of X comes while the first tiles do.
DEVICE void matrix_multiply(const struct weft__token_args *args, int32_t step, uint32_t turn,
                            int32_t warp, int32_t lane)
{
    struct tiles tiles = {}; // nothing of the matrix before is kept in registers until here
    const struct plan p = plan_make(args, step, warp);
    plan_keep(warp, &p);
    if (p.ahead)
        tiles_take(&tiles, p.slot, warp % TEAM_WARPS, lane);
#if SECOND_HOLDS
    const bool second_ahead = second_take_first(args, step, tiles.codes, warp, lane);
#endif
    if (WEFT_BEGINS && step == QKV)
        first_x_take(args);
    else
        x_take(args, step & 3, turn, warp, lane);
    const int32_t kind =
        computed_here(step) & 3; // what follows from it is not kept while X is taken
    struct turn_of_sums sums = sums_carried(p.walked.y);
    bool second = true;
    if (!SECOND_HOLDS || kind != DOWN || !p.second) { // else all units are of the second format
        if (HOLDS && kind == QKV)                     // texts of their own
            units_multiply(QKV, ROWS_ALONE, p.units, QKV_FIXED, p.next, p.slot, p.ahead, &tiles,
                           &sums, warp, lane);
        else if (HOLDS && PAIRS_FIXED && ATTENDED == EMBED && kind != DOWN)
            units_multiply(kind, PAIRS, p.units, true, p.next, p.slot, p.ahead, &tiles, &sums, warp,
                           lane);
        else
            units_multiply(kind, HOLDS ? PAIRS : form_of(kind), p.units, false, p.next, p.slot,
                           p.ahead, &tiles, &sums, warp, lane);
        const struct plan kept = plan_kept(warp); // before any lane keeps the next one
        const int32_t now = computed_here(step) & 3;
        second = kept.second;
        walked_set(warp, make_uint2(walked_of(warp).x + kept.units * work_of(now).slots,
                                    sums_carry(sums)));
    }
#if SECOND_HOLDS
    if (second) {
        const int32_t now = computed_here(step); // not kept either
        second_multiply(now & 3, is_logits(args, now >> 2) ? DRAWN : second_units(now & 3, true),
                        now >> 2 == args->num_layers - 1, second_ahead, tiles.codes, warp, lane);
    }
#endif
}

#endif

// In steps of one matrix, four a layer, of the first perhaps without Q, K and V; and the matrix of logits.
DEVICE void multiply_all(const struct weft__token_args *args, int32_t own_warp, int32_t own_lane)
{
    const struct shared *s = shared_rest();
    walked_set(own_warp, make_uint2(0, 0));
#pragma unroll 1
    for (int32_t step = WEFT_BEGINS ? QKV : O; step < 4 * args->num_layers + (WEFT_LOGITS > 0);
         step++) {
        if (step == O)
            text_wait();
        const int32_t kind = step & 3, l = step >> 2;
        const uint32_t turn = s->launch * args->num_layers + l + 1;
        const int32_t lane = computed_here(own_lane), warp = computed_here(own_warp);
        if (kind == O && s->attends) { // between Q, K, V and O
            attend(args, l, turn, walked_of(warp).x, warp, lane);
            const uint2 walked = walked_of(warp);
            walked_set(warp, make_uint2(walked.x + s->place.left, walked.y));
        }
        matrix_multiply(args, step, turn, warp, lane);
#if WEFT_SECOND && !SECOND_HOLDS
        const bool logits = is_logits(args, step >> 2);
        if (logits ? WEFT_LOGITS_SECOND : is_second(args, computed_here(step) & 3, step >> 2))
            second_multiply(step & 3, logits ? DRAWN : second_units(step & 3, true),
                            step >> 2 == args->num_layers - 1, computed_here(own_warp),
                            computed_here(own_lane));
#endif
    }
#if WEFT_LOGITS
    const float none[2][2] = {}; // for who delivers, who looks no further
    struct turn_of_sums sums = sums_carried(walked_of(computed_here(own_warp)).y);
    sums_leave(&sums, none, computed_here(own_warp), computed_here(own_lane));
#endif
}

#endif
