// SPDX-License-Identifier: MIT
// The main loop of the kernels of linear_stream.cuh. Included once x_load(), tile_multiply() and
// sums_store() are known, which say how X is kept, how a tile is multiplied into ACCUMULATORS numbers
// of a lane, and where a warp leaves them.
#ifndef WEFT_KERNELS_LINEAR_RUN_CUH
#define WEFT_KERNELS_LINEAR_RUN_CUH

#include "src/kernels/linear/linear_stream_deliver.cuh"
#include "src/kernels/linear/linear_stream_norm.cuh"

// Rows so long that X is read where it lies are summed in two steps: one sum over a row loses what is added
// late.
enum { TILES_PER_SUM = 16 };

// Text that a launch runs once is found cold: it is short where a launch has little else to do.
enum { BLOCKS_AT_ONCE = WEFT_EXPERTS || ONE_ROUNDED ? 1 : GROUP_STEPS };

// Blocks that lie beside those of the launch before (WEFT_ROUND_X 2) start when these have asked for X, which nothing delays so, and ask for all
// of their ring while these multiply.
#ifdef X_OWN
enum { NEXT_STARTS_EARLY = 0 };
#else
enum { NEXT_STARTS_EARLY = 1 };
#endif

// Else a row of X comes behind what the SM has asked for, so a slot of the ring is asked for after it, or behind its first loads; not
// where rows are so long that the ring is what a launch waits for.
#if defined X_WAITS || defined X_BETWEEN
enum { ASKED_BEFORE_X = ALL_BUT_ONE };
#else
enum { ASKED_BEFORE_X = WEFT_STAGES };
#endif

// Tiles of a row block that are whole turns of a warp's ring are taken a turn at a time, with slots that are constants: where
// launches are long and instructions what they wait for.
enum {
    AT_A_TURN = WEFT_TWIN && WEFT_COLS / 256 % (WEFT_TEAM * WEFT_STAGES) == 0 ? WEFT_STAGES : 1
};

// total += part, which begins anew.
DEVICE void settle(float total[ACCUMULATORS], float part[ACCUMULATORS])
{
#pragma unroll
    for (int32_t i = 0; i < ACCUMULATORS; i++) {
        total[i] += part[i];
        part[i] = 0;
    }
}

DEVICE void stream_run(const struct weft__linear_device_args *args, int32_t row_tiles)
{
    struct stream s;
    if (NEXT_STARTS_EARLY)
        let_next_start();
#if WEFT_EXPERTS
    wait_for_previous(); // whose weights, is said by launches before
    if (!stream_share(&s, &args->experts))
        return;
#endif
    stream_begin(&s, args, row_tiles);
#pragma unroll 1
    for (int32_t i = 0; i < ASKED_BEFORE_X; i++)
        stream_ask(&s, args, i);
#ifdef TABLES_LOAD
    TABLES_LOAD();
#endif
    if (!WEFT_EXPERTS)
        stream_prefetch(&s, args);
#if WEFT_ROUND && WEFT_PAIR
    pair_begin();
#endif
#ifdef X_OWN
    const struct x_own own = x_own_of(&s, args);
#endif
    if (!WEFT_EXPERTS)
        wait_for_previous();
    float square[NORM_NUMBERS];
#if X_ROUNDED
    norm_ask(&s, args, square);
#endif
#ifdef X_WAITS
    uint4 piece[X_PIECES];
    x_ask(&s, args, piece);
#pragma unroll 1
    for (int32_t i = ASKED_BEFORE_X; i < WEFT_STAGES; i++)
        stream_ask(&s, args, i);
    x_take(&s, args, piece);
#elif defined X_OWN
    x_load_alone(&s, args, &own);
#else
    x_load(&s, args);
#endif
    __syncthreads();
    norm_settle(&s, args, square);
    int32_t base = 0, slot = 0;
    uint32_t turn = 1;
    const uint8_t *ring = shared_ring();
    for (int32_t group = s.first; group < args->num_groups; group += s.step, turn++) {
        float *sums = shared_sums() + team_of_thread() * TEAM_SUMS +
                      (turn + 1) % 2 * GROUP_BLOCKS * SUM_BLOCK;
        uint32_t bases = 0;
        // the blocks of a cluster deliver in turn
        const bool delivers =
            WEFT_SPLIT == 1 || group / s.step % WEFT_SPLIT == (int32_t)cluster_rank();
        struct delivery with = {};
        if (DELIVERY_EARLY && delivers && ROWS_AT_ONCE * s.warp < s.batch)
            with = delivery_of(&s, args, group, row_delivered(&s, 0));
#pragma unroll BLOCKS_AT_ONCE
        for (int32_t block = 0; block < GROUP_STEPS; block++) {
            float acc[ACCUMULATORS] = {0};
#if WEFT_APART
            float of_first[2] = {0, 0};
#endif
#if WEFT_X_OUTSIDE
            float settled[ACCUMULATORS] = {0};
            int32_t unsettled = 0;
#endif
            for (int32_t first = (s.warp - base) & (WEFT_TEAM - 1); first < s.tiles;
                 first += AT_A_TURN * WEFT_TEAM)
#pragma unroll
                for (int32_t k = 0; k < AT_A_TURN; k++) {
                    slot = AT_A_TURN > 1 ? k : slot;
                    COPY_WAIT(WEFT_STAGES - 1);
                    __syncwarp();
#if WEFT_APART
                    of_first[0] = acc[0], of_first[1] = acc[1]; // of two tiles at most
                    acc[0] = acc[1] = 0;
#endif
                    tile_multiply(&s, args, ring + slot * SLOT_BYTES, first + k * WEFT_TEAM, acc);
                    __syncwarp();
                    stream_ask(&s, args, slot); // the slot that has just been read
                    slot = slot + 1 == WEFT_STAGES ? 0 : slot + 1;
#if WEFT_X_OUTSIDE
                    if (++unsettled == TILES_PER_SUM) {
                        settle(settled, acc);
                        unsettled = 0;
                    }
#endif
                }
#if WEFT_X_OUTSIDE
            settle(settled, acc);
            settle(acc, settled);
#endif
#if WEFT_APART
            const int32_t tile = (s.warp - base) & (WEFT_TEAM - 1), second = tile + WEFT_TEAM;
            float *of_tile = sums + block * SUM_BLOCK + (tile - s.warp) * COLUMNS * SUM_STRIDE;
            const bool two = second < s.tiles;
            sums_store(&s, of_tile + (two ? WEFT_TEAM * COLUMNS * SUM_STRIDE : 0), acc);
            if (two)
                sums_store(&s, of_tile, of_first);
#else
            sums_store(&s, sums + block * SUM_BLOCK, acc);
#endif
            bases |= (uint32_t)base << 4 * block;
            base = next_base(base, s.tiles);
        }
        group_barrier();
        for (int32_t k = 0; delivers && ROWS_AT_ONCE * (s.warp + k * WEFT_TEAM) < s.batch; k++) {
            const int32_t n = row_delivered(&s, k);
            if (!DELIVERY_EARLY || k > 0)
                with = delivery_of(&s, args, group, n);
            stream_deliver(&s, args, sums, group, n, bases, &with, turn);
        }
    }
    if (WEFT_SPLIT > 1)
        cluster_barrier(); // nobody leaves while another reads its sums
}

#endif
