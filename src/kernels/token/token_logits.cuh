// SPDX-License-Identifier: MIT
// The matrix of logits behind the last layer (WEFT_LOGITS rows; block formats): units of sixteen rows, in slots as those of Q, K and V,
// or, WEFT_LOGITS_SECOND, as those of V in the second format. SMs draw units: memory brings some of them more than others, and nobody
// waits for logits here. Who asks notes which unit it has drawn; when there is none left it notes how many there were and gives
// every team one slot more, without bytes.
#ifndef WEFT_KERNELS_TOKEN_LOGITS_CUH
#define WEFT_KERNELS_TOKEN_LOGITS_CUH

#include "src/kernels/sample/sample.cuh"
#include "src/kernels/token/token_ask.cuh"
#include "src/kernels/token/token_deliver.cuh"

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
            args->best[part] = part != (int32_t)blockIdx.x ? 0 : any ? best : best & ~0x80000000ull;
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
