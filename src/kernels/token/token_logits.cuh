// SPDX-License-Identifier: MIT
// The matrix of logits behind the last layer (WEFT_LOGITS rows; block formats): units of sixteen rows, in slots as those of Q, K and V,
// or, WEFT_LOGITS_SECOND, as those of V in the second format. SMs draw units: memory brings some of them more than others, and nobody
// waits for logits here. Who asks notes which unit it has drawn; when there is none left it notes how many there were and gives
// every team one slot more, without bytes.
#ifndef WEFT_KERNELS_TOKEN_LOGITS_CUH
#define WEFT_KERNELS_TOKEN_LOGITS_CUH

#include "src/kernels/sample/sample.cuh"
#include "src/kernels/token/token_multiply.cuh"

enum {
    LOGITS_UNITS = WEFT_LOGITS / 16,
    LOGITS_TILES = EMBED / TILE_COLS,
#if WEFT_LOGITS_SECOND
    LOGITS_TILE = second_format::SECOND_TILE_BYTES,
    LOGITS_SLOT_TILES = 2,
#else
    LOGITS_TILE = TILE,
    LOGITS_SLOT_TILES = SLOT_TILES,
#endif
    LOGITS_SLOTS = (LOGITS_TILES + LOGITS_SLOT_TILES - 1) / LOGITS_SLOT_TILES, // of a unit
};
static_assert(MOST_DRAWN > (DEPTH + LOGITS_SLOTS - 1) / LOGITS_SLOTS + PLACES + 1,
              "a unit is delivered before its place is drawn again");

// The first unit is the SM's own. There are as many draws in a launch as units: the counter goes on from launch to launch.
DEVICE int32_t unit_draw(const struct weft__token_args *args)
{
    const uint32_t before = shared_rest()->launch * (uint32_t)LOGITS_UNITS;
    return (int32_t)(gridDim.x + atomicAdd(counter_of(args, WEFT__TOKEN_ROWS), 1u) - before);
}

// By one lane.
DEVICE void logits_ask(const struct weft__token_args *args, struct asker *a)
{
    struct shared *s = shared_rest();
    const uint8_t *rows = (const uint8_t *)args->output;
    int32_t count = 0, unit = (int32_t)blockIdx.x;
    text_wait();
#pragma unroll 1
    for (; unit < LOGITS_UNITS; count++) {
        const int32_t next = unit_draw(args); // not looked at before this one has been asked for
        const uint8_t *at = rows + (int64_t)unit * (LOGITS_TILES * LOGITS_TILE);
        *(volatile int32_t *)&s->drawn[count % MOST_DRAWN] = unit;
#pragma unroll 1
        for (int32_t left = LOGITS_TILES; left > 0; left -= LOGITS_SLOT_TILES) {
            slot_ask(a, at, min(left, (int32_t)LOGITS_SLOT_TILES) * LOGITS_TILE);
            at += LOGITS_SLOT_TILES * LOGITS_TILE;
        }
        unit = next;
    }
    *(volatile int32_t *)&s->ends = count;
#pragma unroll 1
    for (int32_t i = 0; i < TEAMS; i++)
        barrier_arrive(slot_begin(a).full);
}

// Is there no unit `u` of the SM? Known to who has waited for a slot of it, or for one behind it.
DEVICE bool logits_end(int32_t u)
{
    return u >= *(const volatile int32_t *)&shared_rest()->ends;
}

__device__ __noinline__ void logits_multiply(const struct weft__token_args *args)
{
    const int32_t thread = thread_here(), warp = thread / WARP, lane = thread % WARP;
    const uint32_t turn_of_x = shared_rest()->launch * args->num_layers + args->num_layers + 1;
    x_take(args, QKV, turn_of_x, warp, lane);
    const uint2 walked = walked_of(warp);
    const uint8_t *row = shared_row(QKV);
    const int32_t half = warp % TEAM_WARPS;
    struct turn_of_sums sums = sums_carried(walked.y);
    int32_t at = next_of_team(walked.x, warp); // of the unit
    struct turn_of_slot turn = turn_of(walked.x + at);
#if !WEFT_LOGITS_SECOND
    struct tiles tiles = {};
    struct slot_x x = {};
    if (HOLDS && QKV_FIXED)
        slot_x_load(&x, ROWS_ALONE, b_kept(ROWS_ALONE, true), row, EMBED,
                    column_of(ROWS_ALONE, at & (LOGITS_SLOTS - 1)) + half, lane);
#elif SECOND_HOLDS
    uint4 held[2][4];
#endif
#pragma unroll 1
    for (int32_t u = 0;; u++, at -= LOGITS_SLOTS) {
        float sum[2][2] = {};
        slot_wait_turn(turn); // of this unit or a later one
        const bool end = logits_end(u);
#pragma unroll 1
        for (; !end && at < LOGITS_SLOTS; at += TEAMS) {
#if !WEFT_LOGITS_SECOND
            tiles_take(&tiles, turn, half, lane);
            tiles_add(&tiles, ROWS_ALONE, !(HOLDS && QKV_FIXED), half, &x, row, EMBED,
                      column_of(ROWS_ALONE, at) + half, lane, sum);
            tiles_end(&tiles, lane, sum);
#elif SECOND_HOLDS
            const int32_t column = 2 * at + half;
            slot_wait_turn(turn);
            second_take(held, turn.at, half, lane);
            const second_format::held_x x = second_format::held_x_of(
                row, row + EMBED, min(column, LOGITS_TILES - 1), lane);
            int32_t dots[2][4];
            const uint32_t scales[2] = {held[1][2].x, held[1][2].y};
            second_format::held_dots(held, &x, lane, dots);
            if (LOGITS_TILES % 2 == 0 || column < LOGITS_TILES)
                second_format::held_sum(scales, held[1][2].z, &x, dots, sum[0]);
#else
            const int32_t column = 2 * at + half;
            const uint8_t *tile = shared_memory() + turn.at * SLOT + half * LOGITS_TILE;
            slot_wait_turn(turn);
            if (LOGITS_TILES % 2 == 0 || column < LOGITS_TILES) {
                const second_format::one_x x =
                    second_format::one_x_of(row, row + EMBED, column, lane);
                second_format::one_multiply(&x, tile, 4, lane, sum[0]);
            }
            slot_give_back(turn.at, float_bits(sum[0][0]) ^ float_bits(sum[0][1]), lane);
#endif
            turn_next(&turn);
        }
        sums_leave(&sums, sum, warp, lane); // at the end for who delivers, who looks no further
        if (end)
            break;
    }
}

// The largest of the SM's logits, as weft_sample_best leaves that of a part; of parts without an SM there is none.
DEVICE void best_leave(const struct weft__token_args *args, wide best, bool finite, int32_t lane)
{
#pragma unroll
    for (int32_t step = WARP / 4; step; step /= 2) // both halves of the warp have the same rows
        best = larger(best, __shfl_xor_sync(0xffffffffu, best, step));
    const bool any = __any_sync(0xffffffffu, finite);
    if (lane == 0 && args->best)
        for (int32_t part = (int32_t)blockIdx.x; part < WEFT__SAMPLE_PARTS;
             part += (int32_t)gridDim.x)
            args->best[part] = part != (int32_t)blockIdx.x ? 0
                               : any                       ? best
                                                           : best & ~0x80000000ull;
}

DEVICE void logits_deliver(const struct weft__token_args *args, struct delivery *d, int32_t lane)
{
    struct shared *s = shared_rest();
    part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
    const float rms = row_norm(shared_row(QKV), args->qkv_eps, lane);
    wide best = 0;
    bool finite = false;
#pragma unroll 1
    for (int32_t u = 0;; u++) {
        barrier_wait(shared_address(s->summed + d->next % PLACES), d->next / PLACES & 1);
        if (logits_end(u))
            break;
        const int32_t unit = *(const volatile int32_t *)&s->drawn[u % MOST_DRAWN];
        const int32_t row = unit * 16 + lane % 16;
        const float value = rms * sums_take(d, QKV, lane, false, WEFT_LOGITS_SECOND);
        if (lane < 16)
            args->logits[row] = value;
        best = larger(best, rank_of(cleaned(value), row));
        finite |= value >= -FLOAT_MAX && value <= FLOAT_MAX;
    }
    best_leave(args, best, finite, lane);
}

#endif
