// SPDX-License-Identifier: MIT
// The main loop of kernels for 2 to 16 rows of X, numbers, whose blocks have a part of the columns each, those of a cluster all: X of all columns is much
// to bring to every SM, and leaves little room for rings. Included instead of linear_run.cuh, once x_load(), which waits for the launch before and for the blocks of the cluster to have begun, and tile_multiply() are known, and
// SLOTS_BEFORE_X, the slots of a ring that are asked for before X, and SUM_FACTOR, what sums of tiles are multiplied by.
//
// Teams take groups of 16 rows in turn, as in linear_stream.cuh. Who has a group's sums (a lane four of eight rows of X, as D of mma.cuh) sends them to the blocks that deliver, a
// part of the rows each; their barriers count what has come, and are waited for when the next turn's groups have been multiplied. A fence or a barrier
// of the cluster would wait for the weights that are on their way.
#ifndef WEFT_KERNELS_LINEAR_SENT_CUH
#define WEFT_KERNELS_LINEAR_SENT_CUH

#include "src/kernels/cuda/bulk.cuh"
#include "src/kernels/linear/linear_rounding.cuh"
#include "src/kernels/linear/linear_stream_norm.cuh"

static_assert((COLUMNS % 8 == 0 || COLUMNS == 1) && COLUMNS * WEFT_WARPS % 4 == 0 && !X_ROUNDED &&
                  WEFT_SPLIT > 1 && !WEFT_ROUND && !WEFT_EXPERTS && !WEFT_TWIN,
              "sums that are sent");

// Where a block has what is sent to it: two turns' sums, [matrix][team][sender][row of W][row of X] | squares of rows of X, of the blocks | barriers of two
// turns.
enum {
    OWN_ROWS = 16 / WEFT_SPLIT,       // of a group, that a block delivers
    SENT = COLUMNS * OWN_ROWS,        // numbers of a warp for a block
    SENDERS = WEFT_SPLIT * WEFT_TEAM, // of a group
    MATRIX_NUMBERS = TEAMS * SENDERS * SENT,
    TURN_NUMBERS = MATRICES * MATRIX_NUMBERS,
    SQUARES_AT = 2 * TURN_NUMBERS,
    BARRIERS_AT = SQUARES_AT + (WEFT_SPLIT * COLUMNS + 3) / 4 * 4,
    LANE_SUMS = COLUMNS == 1 ? 2 : COLUMNS / 2,
};
static_assert((BARRIERS_AT + 4) * 4 == SUMS_BYTES, "room for what is sent");

DEVICE float *turn_numbers(int32_t turn)
{
    return shared_sums() + (turn & 1) * TURN_NUMBERS;
}

// All of the turn's numbers have come.
DEVICE uint32_t turn_barrier(int32_t turn)
{
    return shared_address(shared_sums() + BARRIERS_AT) + (turn & 1) * 8;
}

// One thread, when nobody waits for the turn two before any more.
DEVICE void turn_expect(const struct weft__linear_device_args *args, int32_t turn)
{
    const int32_t squares = turn == 0 && NORM_BEFORE && args->norm ? WEFT_SPLIT * COLUMNS : 0;
    barrier_expect(turn_barrier(turn), (uint32_t)(TURN_NUMBERS + squares) * 4);
}

DEVICE void turns_begin(const struct weft__linear_device_args *args)
{
    if (threadIdx.x == 0) {
        barrier_init(turn_barrier(0), 1), barrier_init(turn_barrier(1), 1);
        barrier_init_end();
        turn_expect(args, 0), turn_expect(args, 1);
    }
    __syncwarp();
    cluster_begun();
}

// Squares of the block's columns, by warps in norm_parts(), go to all; after a barrier since x_load().
DEVICE void squares_send(const struct weft__linear_device_args *args)
{
#if NORM_BEFORE
    const int32_t n = (int32_t)threadIdx.x % (COLUMNS / 2) * 2;
    const int32_t to = (int32_t)threadIdx.x / (COLUMNS / 2);
    if (!args->norm || to >= WEFT_SPLIT)
        return;
    float2 total = make_float2(0, 0);
    for (int32_t warp = n / 8; warp < WEFT_WARPS; warp += COLUMNS / 8) { // that had the row
        total.x += norm_parts()[n * WEFT_WARPS + warp];
        total.y += norm_parts()[(n + 1) * WEFT_WARPS + warp];
    }
    cluster_send_2(shared_sums() + SQUARES_AT + cluster_rank() * COLUMNS + n, (uint32_t)to, total,
                   turn_barrier(0));
#else
    (void)args;
#endif
}

DEVICE float row_rms(const struct weft__linear_device_args *args, int32_t n)
{
    float total = 0;
#pragma unroll
    for (int32_t rank = 0; rank < WEFT_SPLIT; rank++)
        total += shared_sums()[SQUARES_AT + rank * COLUMNS + n];
    return 1.0f / sqrtf(total / (float)args->cols + args->norm_eps);
}

DEVICE void sums_send(const struct stream *s, int32_t turn, int32_t matrix,
                      const float acc[LANE_SUMS])
{
    const int32_t sender = (int32_t)cluster_rank() * WEFT_TEAM + s->warp;
    float *to =
        turn_numbers(turn) + matrix * MATRIX_NUMBERS + (team_of_thread() * SENDERS + sender) * SENT;
#if COLUMNS == 1 // rows r and r + 8, of which four lanes have parts
    const float top = warp_sum(acc[0], 4), bottom = warp_sum(acc[1], 4);
    const int32_t row = s->lane / 4 + s->lane % 4 * 8;
    if (row < 16)
        cluster_send_1(to + row % OWN_ROWS, (uint32_t)(row / OWN_ROWS), row < 8 ? top : bottom,
                       turn_barrier(turn));
#else
    float *at = to + s->lane % 4 * 2;
#pragma unroll
    for (int32_t k = 0; k < COLUMNS / 4; k++) {
        const int32_t row = s->lane / 4 + k % 2 * 8;
        cluster_send_2(at + row % OWN_ROWS * COLUMNS + k / 2 * 8, (uint32_t)(row / OWN_ROWS),
                       make_float2(acc[2 * k], acc[2 * k + 1]), turn_barrier(turn));
    }
#endif
}

// A thread has a result of every so many.
DEVICE void turn_deliver(const struct stream *s, const struct weft__linear_device_args *args,
                         int32_t turn)
{
    const int32_t blocks = (int32_t)gridDim.x / WEFT_SPLIT;
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < TEAMS * SENT; i += THREADS) {
        const int32_t team = i / SENT, n = i % SENT / OWN_ROWS;
        const int32_t group = (int32_t)blockIdx.x / WEFT_SPLIT + (turn * TEAMS + team) * blocks;
        if (group >= args->num_groups || n >= s->batch)
            continue;
        const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
        const int32_t row =
            (group - part->first_group) * 16 + (int32_t)cluster_rank() * OWN_ROWS + i % OWN_ROWS;
        if (row >= part->rows)
            continue;
        const int64_t at = y_row(s, n);
        const float residual =
            args->residual ? element<WEFT_Y_DTYPE>(args->residual, at * args->residual_stride + row)
                           : 0.0f;
        const float rms = NORM_BEFORE && args->norm ? row_rms(args, n) : 1.0f;
        float value[MATRICES];
#pragma unroll
        for (int32_t m = 0; m < MATRICES; m++) {
            const float *from = turn_numbers(turn) + m * MATRIX_NUMBERS + team * SENDERS * SENT +
                                i % OWN_ROWS * COLUMNS + n;
            float total = 0;
#pragma unroll
            for (int32_t sender = 0; sender < SENDERS; sender++)
                total += from[sender * SENT];
            value[m] = part[m].alpha * (rms * (total * SUM_FACTOR)) +
                       (part[m].bias ? part[m].bias[row] : 0.0f);
        }
        const float out = gated<WEFT_GATE>(value[0], value[MATRICES - 1]) + residual;
        set_element<WEFT_Y_DTYPE>(part->y, at * part->y_stride + row, out);
    }
}

// Waits for the turn's numbers and delivers them. That all have come says that every warp of the cluster has delivered the turn before
// it, so the numbers of the turn after it may be sent.
DEVICE void turn_end(const struct stream *s, const struct weft__linear_device_args *args,
                     int32_t turn)
{
    barrier_wait(turn_barrier(turn), (uint32_t)turn / 2 & 1);
    if (threadIdx.x == 0)
        turn_expect(args, turn + 2);
    turn_deliver(s, args, turn);
}

DEVICE void sent_run(const struct weft__linear_device_args *args, int32_t row_tiles)
{
    struct stream s;
    let_next_start();
    turns_begin(args);
    stream_begin(&s, args, row_tiles);
#pragma unroll 1
    for (int32_t i = 0; i < SLOTS_BEFORE_X; i++)
        stream_ask(&s, args, i);
    const bool finite = !__syncthreads_or(!x_load(&s, args));
    squares_send(args);
    int32_t left =
        args->num_groups - (int32_t)blockIdx.x / WEFT_SPLIT; // from the first team's next group on
    int32_t base = 0, slot = 0, group = s.first;
    // the last pass only delivers: what follows a turn is there once
#pragma unroll 1
    for (int32_t turn = 0, matrix = 0;;) {
        float acc[LANE_SUMS] = {0};
        if (group < args->num_groups) {
            for (int32_t tile = (s.warp - base) & (WEFT_TEAM - 1); tile < s.tiles;
                 tile += WEFT_TEAM) {
                COPY_WAIT(WEFT_STAGES - 1);
                __syncwarp();
                tile_multiply(&s, args, shared_ring() + slot * SLOT_BYTES, tile, finite, acc);
                __syncwarp();
                stream_ask(&s, args, slot);
                slot = slot + 1 == WEFT_STAGES ? 0 : slot + 1;
            }
            base = next_base(base, s.tiles);
        }
        if (turn > 0 && matrix == 0)
            turn_end(&s, args, turn - 1);
        if (left <= 0)
            break;
        sums_send(&s, turn, matrix, acc);
        if (++matrix == MATRICES)
            matrix = 0, turn++, group += s.step, left -= s.step;
    }
}

#endif
